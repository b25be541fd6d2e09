#include "planner/validation/validation_text.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

// Titles of papers make long names.
std::string Shorten(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

std::vector<std::string> RowsLine(const RowsScore& score) {
  std::vector<std::string> cells = {Shorten(score.name, 34), std::to_string(score.num_rows),
                                    std::to_string(score.num_skipped)};
  for (const ErrorScore* errors : {&score.step_time, &score.memory}) {
    const bool any = errors->num_rows > 0;
    cells.push_back(any ? std::to_string(errors->num_rows) : "");
    cells.push_back(any ? FormatPercent(errors->mean_absolute) : "");
    if (errors == &score.step_time) {
      cells.push_back(any ? FormatPercent(errors->median_absolute) : "");
    }
    cells.push_back(any ? FormatSignedPercent(errors->bias) : "");
  }
  return cells;
}

std::string RowsText(const Validation& validation) {
  TextTable table(
      {"", "rows", "skipped", "time", "mean", "median", "bias", "memory", "mean", "bias"});
  for (const RowsScore& source : validation.sources) table.AddRow(RowsLine(source));
  for (const RowsScore& kind : validation.kinds) table.AddRow(RowsLine(kind));
  table.AddRow(RowsLine(validation.total));
  return table.ToString();
}

std::string WorstText(const Validation& validation, int num_worst, const std::string& title,
                      std::optional<double> (*error)(const RowResult&)) {
  std::vector<const RowResult*> rows;
  for (const RowResult& row : validation.rows) {
    if (error(row)) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(), [&](const RowResult* a, const RowResult* b) {
    return std::abs(*error(*a)) > std::abs(*error(*b));
  });
  if (static_cast<int>(rows.size()) > num_worst) rows.resize(num_worst);
  if (rows.empty()) return "";
  TextTable table({title, "error"});
  for (const RowResult* row : rows) {
    table.AddRow({row->measurement.id, FormatSignedPercent(*error(*row))});
  }
  return Concat("\n", table.ToString());
}

std::string SkippedText(const Validation& validation) {
  std::map<std::string, int64_t> reasons;
  for (const RowResult& row : validation.rows) {
    if (!row.is_priced()) ++reasons[row.skipped];
  }
  std::string text;
  for (const auto& [reason, count] : reasons) {
    text += WrapText(Concat(FormatPlural(count, "row"), ": ", reason), "  - ");
  }
  return text.empty() ? "" : Concat("\nSkipped:\n", text);
}

std::string MemorySentence(const Validation& validation) {
  std::string text;
  for (const auto& [name, score] : validation.memory_by_class) {
    text += Concat(text.empty() ? "Memory, mean (worst) error by what was measured: " : "; ", name,
                   " ", FormatPercent(score.mean_absolute), " (",
                   FormatPercent(score.worst_absolute), ") over ", score.num_rows);
  }
  return text.empty() ? "No row measures memory." : text + ".";
}

std::string FitSentence(const FitScore& fit) {
  return Concat("Of ", FormatPlural(fit.num_out_of_memory, "row"), " that ran out of memory, ",
                fit.false_fits.size(), " are said to fit; of ", fit.num_ran, " that ran, ",
                fit.false_refusals.size(), " are said not to fit.");
}

std::string RankingSentence(const RankingScore& ranking) {
  if (ranking.groups.empty()) return "No job was measured under several layouts.";
  std::string text =
      Concat("Over ", FormatPlural(static_cast<int64_t>(ranking.groups.size()), "job"),
             " measured under several layouts, the layout predicted fastest takes ",
             FormatPercent(ranking.mean_regret), " longer than the fastest on average, ",
             FormatPercent(ranking.worst_regret), " at worst");
  if (ranking.num_large_groups > 0) {
    text += Concat("; rank correlation ", FormatFixed(ranking.mean_rank_correlation, 3),
                   " on average and ", FormatFixed(ranking.worst_rank_correlation, 3),
                   " at worst over the ", ranking.num_large_groups, " with ", kLargeGroup,
                   " layouts or more");
  }
  return text + ".";
}

}  // namespace

std::string FormatSignedPercent(double share) {
  return Concat(share < 0 ? "" : "+", FormatPercent(share));
}

std::vector<std::string> ValidationSummary(const Validation& validation) {
  const RowsScore& total = validation.total;
  const ErrorScore& time = total.step_time;
  std::vector<std::string> sentences = {Concat(FormatPlural(total.num_rows, "measurement"), ", ",
                                               total.num_skipped, " skipped, ",
                                               total.num_not_scored, " priced but not scored.")};
  if (time.num_rows > 0) {
    sentences.push_back(Concat("Step time over ", time.num_rows, " rows: mean error ",
                               FormatPercent(time.mean_absolute), ", median ",
                               FormatPercent(time.median_absolute), ", bias ",
                               FormatSignedPercent(time.bias), "."));
  }
  sentences.push_back(MemorySentence(validation));
  sentences.push_back(FitSentence(validation.fit));
  sentences.push_back(RankingSentence(validation.ranking));
  return sentences;
}

std::string ValidationText(const Validation& validation, int num_worst) {
  std::string text = RowsText(validation) + "\n";
  for (const std::string& sentence : ValidationSummary(validation)) text += WrapText(sentence, "");
  text += WorstText(validation, num_worst, "worst step times", StepTimeError);
  text += WorstText(validation, num_worst, "worst memory", MemoryError);
  return text + SkippedText(validation);
}

std::string BoundsText(size_t num_bounds, const std::vector<std::string>& broken) {
  std::string text = WrapText(Concat(num_bounds - broken.size(), " of ", num_bounds,
                                     " recorded bounds hold", broken.empty() ? "." : ":"),
                              "");
  for (const std::string& sentence : broken) text += WrapText(sentence + ".", "  - ");
  return text;
}

}  // namespace tessera::planner
