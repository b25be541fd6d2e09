#include "planner/explanation.h"

#include <algorithm>
#include <cmath>

#include "cost_model/base/check.h"
#include "cost_model/memory.h"
#include "planner/layout_text.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

bool IsSameMesh(const spec::ParallelSpec& a, const spec::ParallelSpec& b) {
  return a.tensor_parallel_size == b.tensor_parallel_size &&
         a.pipeline_parallel_size == b.pipeline_parallel_size &&
         a.data_parallel_size == b.data_parallel_size &&
         a.context_parallel_size == b.context_parallel_size &&
         a.expert_parallel_size == b.expert_parallel_size;
}

// "+3.2 %" of `other` over `chosen`.
std::string LeadText(const RankedLayout& chosen, const RankedLayout& other) {
  const double ratio = other.report.step_time_s / chosen.report.step_time_s - 1;
  return Concat(ratio >= 0 ? "+" : "", FormatPercent(ratio));
}

bool IsTie(const Request& request, const RankedLayout& chosen, const RankedLayout& other) {
  return other.report.step_time_s <= chosen.report.step_time_s * (1 + request.error_band.share);
}

std::string ChoiceText(const RankedLayout& chosen) {
  return Concat("Choice: ", LayoutText(chosen.parallel), ": ",
                FormatSeconds(chosen.report.step_time_s), " a step, ",
                FormatCount(static_cast<int64_t>(chosen.report.tokens_per_s)), " tokens/s, ",
                FormatPercent(chosen.report.mfu), " MFU.");
}

std::string RunnerUpText(const SearchResult& search) {
  const std::vector<RankedLayout>& rows = search.rows;
  const RankedLayout& chosen = rows.front();
  const auto other = std::find_if(
      search.meshes.begin(), search.meshes.end(),
      [&](const RankedLayout& mesh) { return !IsSameMesh(mesh.parallel, chosen.parallel); });
  if (other != search.meshes.end()) {
    return Concat("Why this mesh: the best other one, ", LayoutText(other->parallel), ", takes ",
                  FormatSeconds(other->report.step_time_s), " (", LeadText(chosen, *other),
                  "); the choice has ", DifferenceText(chosen.report.time, other->report.time),
                  ".");
  }
  if (rows.size() == 1) return "Why this one: no other layout is feasible.";
  return Concat("Why this one: the next, ", LayoutText(rows[1].parallel), ", takes ",
                FormatSeconds(rows[1].report.step_time_s), " (", LeadText(chosen, rows[1]),
                "); the choice has ", DifferenceText(chosen.report.time, rows[1].report.time), ".");
}

std::string LimitText(const spec::StepReport& report) {
  std::vector<TimeTerm> terms = TermsOf(report.time);
  std::stable_sort(terms.begin(), terms.end(),
                   [](const TimeTerm& a, const TimeTerm& b) { return a.seconds > b.seconds; });
  std::string text = "What limits it: ";
  constexpr int kNumTerms = 4;
  constexpr double kLeastShare = 0.01;
  for (int i = 0; i < kNumTerms && terms[i].seconds > kLeastShare * report.step_time_s; ++i) {
    text += Concat(i > 0 ? ", " : "", terms[i].name, " ",
                   FormatPercent(terms[i].seconds / report.step_time_s));
  }
  return text + " of the step.";
}

std::string FullestStageText(const spec::StepReport& report) {
  const auto fullest =
      std::max_element(report.stages.begin(), report.stages.end(),
                       [](const auto& a, const auto& b) { return a.Total() < b.Total(); });
  return Concat("the fullest stage (", fullest - report.stages.begin(), ") holds ",
                FormatBytes(static_cast<double>(report.peak_bytes)));
}

std::string BestPracticeSentence(const Request& request, const RankedLayout& chosen,
                                 const BestPractice& practice) {
  const std::string start = Concat("The best-practice table says ", practice.rule, " for ",
                                   FormatPlural(request.job.num_devices, "device"), ": ");
  if (!practice.layout) {
    return Concat(start, "we disagree, no layout of that kind is feasible (",
                  practice.violations.front().message, ").");
  }
  const RankedLayout& table = *practice.layout;
  const bool is_same = chosen.parallel.tensor_parallel_size == practice.tensor_parallel_size &&
                       chosen.parallel.pipeline_parallel_size == practice.pipeline_parallel_size;
  if (is_same) return start + "we agree.";
  const std::string prices =
      Concat("its best layout takes ", FormatSeconds(table.report.step_time_s), " against ",
             FormatSeconds(chosen.report.step_time_s), " (", LeadText(chosen, table), ")");
  if (IsTie(request, chosen, table)) return Concat(start, "a tie, ", prices, ".");
  return Concat(start, "we disagree, ", prices, ": the choice has ",
                DifferenceText(chosen.report.time, table.report.time), ".");
}

std::string TieText(const Request& request, const SearchResult& search) {
  const size_t num_ties = NumTies(request, search);
  if (num_ties == 0) return "";
  const std::vector<RankedLayout>& rows = search.rows;
  const auto leanest = std::min_element(
      rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(num_ties) + 1,
      [](const auto& a, const auto& b) { return a.report.peak_bytes < b.report.peak_bytes; });
  const bool are_all = num_ties + 1 == rows.size() && search.num_pruned > 0;
  return Concat("Ties: the next ", FormatPlural(static_cast<int64_t>(num_ties), "row"),
                are_all ? ", and maybe more that were pruned," : "", num_ties == 1 ? " is" : " are",
                " within ", FormatPercent(request.error_band.share),
                " of the choice, the error to expect of ", "an estimate (",
                request.error_band.source, "); among them, ", LayoutText(leanest->parallel),
                " takes the least memory, ",
                FormatBytes(static_cast<double>(leanest->report.peak_bytes)), ".");
}

// Axes that do not multiply to the devices rule out most of what is tried: any other reason tells
// more.
const Rejection& MostTelling(const std::vector<Rejection>& rejections) {
  for (const Rejection& rejection : rejections) {
    const bool is_product = rejection.constraint.starts_with("devices %") ||
                            rejection.constraint.starts_with("world size") ||
                            rejection.constraint.starts_with("target ");
    if (!is_product) return rejection;
  }
  return rejections.front();
}

}  // namespace

std::string MemoryText(const Request& request, const RankedLayout& layout) {
  const spec::ClusterSpec& cluster = request.job.cluster;
  const auto available = static_cast<double>(cluster.device.memory_bytes);
  const double needed =
      cost_model::NeededBytes(layout.report.stages, cluster, layout.parallel, request.job.runtime);
  const std::string free = FormatBytes(available - needed);
  if (cluster.shared_compute_units > 0) {
    return Concat("Memory: all ranks together take ", FormatBytes(needed), " of the machine's ",
                  FormatBytes(available), ", ", free, " are free.");
  }
  return Concat("Memory: ", FullestStageText(layout.report), ", with what its allocator reserves ",
                FormatBytes(needed), " of ", FormatBytes(available), "; ", free, " are free.");
}

std::string DifferenceText(const spec::TimeBreakdown& chosen, const spec::TimeBreakdown& other) {
  std::vector<TimeTerm> terms = TermsOf(chosen);
  const std::vector<TimeTerm> others = TermsOf(other);
  for (size_t i = 0; i < terms.size(); ++i) terms[i].seconds -= others[i].seconds;
  std::stable_sort(terms.begin(), terms.end(), [](const TimeTerm& a, const TimeTerm& b) {
    return std::abs(a.seconds) > std::abs(b.seconds);
  });
  constexpr size_t kNumTerms = 3;
  constexpr double kLeastShare = 0.1;  // of the largest difference
  std::string text;
  for (size_t i = 0; i < kNumTerms && terms[i].seconds != 0 &&
                     std::abs(terms[i].seconds) >= kLeastShare * std::abs(terms[0].seconds);
       ++i) {
    text += Concat(i > 0 ? ", " : "", FormatSeconds(std::abs(terms[i].seconds)),
                   terms[i].seconds < 0 ? " less " : " more ", terms[i].name);
  }
  return text.empty() ? "the same time everywhere" : text;
}

size_t NumTies(const Request& request, const SearchResult& search) {
  if (request.objective == Objective::kMemory) return 0;
  size_t num_ties = 0;
  while (num_ties + 1 < search.rows.size() &&
         IsTie(request, search.rows[0], search.rows[num_ties + 1])) {
    ++num_ties;
  }
  return num_ties;
}

std::vector<std::string> Explain(const Request& request, const SearchResult& search,
                                 const std::optional<BestPractice>& best_practice) {
  TESSERA_CHECK(!search.rows.empty(), "nothing to explain");
  const RankedLayout& chosen = search.rows.front();
  std::vector<std::string> sentences = {ChoiceText(chosen), RunnerUpText(search),
                                        LimitText(chosen.report), MemoryText(request, chosen)};
  if (best_practice) {
    sentences.push_back(BestPracticeSentence(request, chosen, *best_practice));
  }
  const std::string ties = TieText(request, search);
  if (!ties.empty()) sentences.push_back(ties);
  return sentences;
}

std::string WhyNothingFits(const SearchResult& search) {
  if (search.rejections.empty()) return "no layout fits: the pinned axes leave none";
  const Rejection& reason = MostTelling(search.rejections);
  return base::Concat("no layout fits: ", FormatCount(reason.num_layouts), " of ",
                      FormatCount(search.num_layouts), " tried fail by ", reason.constraint, ": ",
                      reason.example.message);
}

}  // namespace tessera::planner
