#include "planner/answer_text.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

// "full 2-3": how many layers of each virtual stage where not all are.
std::string RecomputeCell(const spec::ParallelSpec& parallel) {
  const std::vector<int>& recomputed = parallel.recomputed_layers_per_virtual_stage;
  const std::string name(spec::ToString(parallel.recompute));
  if (recomputed.empty()) return name;
  const auto [fewest, most] = std::minmax_element(recomputed.begin(), recomputed.end());
  return *fewest == *most ? Concat(name, " ", *most) : Concat(name, " ", *fewest, "-", *most);
}

std::vector<std::string> RankingRow(const std::string& mark, const RankedLayout& layout) {
  const spec::ParallelSpec& parallel = layout.parallel;
  const spec::StepReport& report = layout.report;
  return {mark,
          std::to_string(parallel.tensor_parallel_size),
          std::to_string(parallel.pipeline_parallel_size),
          std::to_string(parallel.virtual_pipeline_size),
          std::to_string(parallel.data_parallel_size),
          std::to_string(parallel.context_parallel_size),
          std::to_string(parallel.expert_parallel_size),
          std::to_string(parallel.micro_batch_size),
          parallel.sequence_parallel ? "yes" : "no",
          RecomputeCell(parallel),
          std::to_string(parallel.zero_stage),
          std::string(spec::ToString(parallel.schedule)),
          FormatSeconds(report.step_time_s),
          FormatCount(static_cast<int64_t>(report.tokens_per_s)),
          FormatPercent(report.mfu),
          FormatBytes(static_cast<double>(report.peak_bytes))};
}

}  // namespace

std::string RejectionsText(const SearchResult& search) {
  std::string text = "Ruled out:\n";
  for (const Rejection& rejection : search.rejections) {
    text += WrapText(Concat(FormatPlural(rejection.num_layouts, "layout"), " by ",
                            rejection.constraint, " (for one: ", rejection.example.message, ")"),
                     "  - ");
  }
  return text;
}

std::string CountsText(const SearchResult& search) {
  int64_t num_rejected = 0;
  for (const Rejection& rejection : search.rejections) num_rejected += rejection.num_layouts;
  return Concat(FormatPlural(search.num_layouts, "layout"), ": ", FormatCount(search.num_priced),
                " priced, ", FormatCount(search.num_pruned), " pruned by bounds, ",
                FormatCount(num_rejected), " ruled out");
}

std::string BestPracticeText(const BestPractice& practice) {
  std::string text = Concat("the best-practice table, ", practice.rule);
  if (!practice.layout) {
    const spec::Violation& reason = practice.violations.front();
    text += Concat(": infeasible by ", reason.constraint, ": ", reason.message);
  }
  return WrapText(text, "  bp: ");
}

std::string RankingText(const std::vector<RankedLayout>& rows, int num_rows,
                        const std::optional<BestPractice>& best_practice) {
  TextTable table({"#", "tp", "pp", "vpp", "dp", "cp", "ep", "mbs", "sp", "recompute", "zero",
                   "schedule", "step", "tokens/s", "MFU", "memory"});
  const size_t num_shown = std::min(rows.size(), static_cast<size_t>(num_rows));
  for (size_t i = 0; i < num_shown; ++i) table.AddRow(RankingRow(std::to_string(i + 1), rows[i]));
  if (!best_practice) return table.ToString(2);
  if (best_practice->layout) table.AddRow(RankingRow("bp", *best_practice->layout));
  return table.ToString(2) + BestPracticeText(*best_practice);
}

std::string RepairsText(const std::vector<Repair>& repairs, double given_step_time_s) {
  if (repairs.empty()) return "No single change that was tried makes it fit.\n";
  std::string text = "What would make it fit:\n";
  for (const Repair& repair : repairs) {
    const spec::StepReport& report = repair.layout.report;
    const double change = report.step_time_s / given_step_time_s - 1;
    const std::string against = given_step_time_s > 0
                                    ? Concat(", ", change >= 0 ? "+" : "", FormatPercent(change),
                                             " against the layout given")
                                    : "";
    text += WrapText(Concat(repair.change, ": ", LayoutText(repair.layout.parallel), " takes ",
                            FormatSeconds(report.step_time_s), " a step (",
                            FormatPercent(report.mfu), " MFU", against, ") and ",
                            FormatBytes(static_cast<double>(report.peak_bytes)), " a device."),
                     "  - ");
  }
  return text;
}

}  // namespace tessera::planner
