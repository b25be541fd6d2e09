#include "planner/validation/validation_text.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

std::string Signed(double share) {
  return base::Concat(share < 0 ? "" : "+", FormatPercent(share));
}

std::vector<std::string> SourceLine(const SourceScore& score) {
  std::vector<std::string> cells = {score.source, std::to_string(score.num_rows),
                                    std::to_string(score.num_skipped)};
  for (const ErrorScore* errors : {&score.step_time, &score.memory}) {
    cells.push_back(std::to_string(errors->num_rows));
    const bool any = errors->num_rows > 0;
    cells.push_back(any ? FormatPercent(errors->mean_absolute) : "");
    cells.push_back(any ? FormatPercent(errors->median_absolute) : "");
    cells.push_back(any ? Signed(errors->bias) : "");
  }
  return cells;
}

std::string SourcesText(const Validation& validation) {
  TextTable table({"source", "rows", "skipped", "time", "mean", "median", "bias", "memory", "mean",
                   "median", "bias"});
  for (const SourceScore& source : validation.sources) table.AddRow(SourceLine(source));
  table.AddRow(SourceLine(validation.total));
  return table.ToString();
}

std::string WorstText(const Validation& validation, int num_worst) {
  std::vector<const RowResult*> rows;
  for (const RowResult& row : validation.rows) {
    if (StepTimeError(row)) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const RowResult* a, const RowResult* b) {
    return std::abs(*StepTimeError(*a)) > std::abs(*StepTimeError(*b));
  });
  if (static_cast<int>(rows.size()) > num_worst) rows.resize(num_worst);
  TextTable table({"worst step times", "measured", "predicted", "error"});
  for (const RowResult* row : rows) {
    table.AddRow({row->measurement.id, FormatSeconds(*row->measurement.step_time_s),
                  FormatSeconds(row->predicted_step_time_s), Signed(*StepTimeError(*row))});
  }
  return rows.empty() ? "" : base::Concat("\n", table.ToString());
}

std::string SkippedText(const Validation& validation) {
  std::map<std::string, int64_t> reasons;
  for (const RowResult& row : validation.rows) {
    if (!row.is_priced()) ++reasons[row.skipped];
  }
  std::string text;
  for (const auto& [reason, count] : reasons) {
    text += WrapText(base::Concat(FormatPlural(count, "row"), ": ", reason), "  - ");
  }
  return text.empty() ? "" : base::Concat("\nSkipped:\n", text);
}

}  // namespace

std::string ValidationText(const Validation& validation, int num_worst) {
  return SourcesText(validation) + WorstText(validation, num_worst) + SkippedText(validation);
}

}  // namespace tessera::planner
