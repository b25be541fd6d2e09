#include "planner/what_if/comparison.h"

#include <algorithm>
#include <cmath>

#include "cost_model/base/check.h"
#include "planner/explanation.h"
#include "planner/layout_text.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

// In the order of TermsOf.
constexpr const char* kTermKeys[] = {"forward_s", "backward_s",  "recompute_s", "tp_comm_s",
                                     "pp_comm_s", "dp_comm_s",   "cp_comm_s",   "ep_comm_s",
                                     "bubble_s",  "optimizer_s", "other_s",     "straggler_s"};

std::string SentenceOf(const ComparedSide& a, const ComparedSide& b) {
  const double a_s = a.report.step_time_s;
  const double b_s = b.report.step_time_s;
  const double share = b_s / a_s - 1;
  const std::string verdict =
      std::abs(share) < 5e-4
          ? std::string("as long as")
          : Concat(FormatPercent(std::abs(share)), share > 0 ? " longer than" : " less than");
  std::string sentence = Concat("A step of ", b.name, " takes ", FormatSeconds(b_s), ", ", verdict,
                                " one of ", a.name, " (", FormatSeconds(a_s), ")");
  if (a.report.tokens_per_s > 0 && b.report.tokens_per_s > 0) {
    const double gain = b.report.tokens_per_s / a.report.tokens_per_s - 1;
    sentence += Concat("; throughput ", gain >= 0 ? "+" : "", FormatPercent(gain));
  }
  const std::string difference = DifferenceText(b.report.time, a.report.time);
  if (!difference.empty()) sentence += ": " + difference;
  return sentence + ".";
}

}  // namespace

Comparison Compare(ComparedSide a, ComparedSide b) {
  Comparison comparison{std::move(a), std::move(b), {}, ""};
  const std::vector<TimeTerm> of_a = TermsOf(comparison.a.report.time);
  const std::vector<TimeTerm> of_b = TermsOf(comparison.b.report.time);
  TESSERA_CHECK(of_a.size() == std::size(kTermKeys), "terms and keys differ");
  for (size_t i = 0; i < of_a.size(); ++i) {
    comparison.terms.push_back({kTermKeys[i], of_a[i].name, of_a[i].seconds, of_b[i].seconds});
  }
  comparison.sentence = SentenceOf(comparison.a, comparison.b);
  return comparison;
}

std::string ComparisonText(const Comparison& comparison) {
  const spec::StepReport& a = comparison.a.report;
  const spec::StepReport& b = comparison.b.report;
  const auto difference = [&](double seconds) {
    return Concat(seconds > 0 ? "+" : "", FormatSeconds(seconds));
  };
  const auto share = [&](double seconds) {
    return Concat(seconds > 0 ? "+" : "", FormatPercent(seconds / a.step_time_s));
  };
  TextTable table({"time", "a", "b", "difference", "of a's step"});
  for (const ComparedTerm& term : comparison.terms) {
    constexpr double kLeastShare = 1e-9;  // less is rounding
    if (std::max(term.a_s, term.b_s) < kLeastShare * a.step_time_s) continue;
    table.AddRow({term.name, FormatSeconds(term.a_s), FormatSeconds(term.b_s),
                  difference(term.DifferenceS()), share(term.DifferenceS())});
  }
  const double step_s = b.step_time_s - a.step_time_s;
  table.AddRow({"step", FormatSeconds(a.step_time_s), FormatSeconds(b.step_time_s),
                difference(step_s), share(step_s)});
  std::string text;
  for (const ComparedSide* side : {&comparison.a, &comparison.b}) {
    text += Concat(side == &comparison.a ? "a: " : "b: ", side->name, " (", side->kind, ")",
                   side->layout_text.empty() ? "" : ": " + side->layout_text, "\n");
  }
  return text + table.ToString(2) + "\n";
}

}  // namespace tessera::planner
