#include "planner/answer_text.h"

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

std::vector<std::string> ComparisonRow(const std::string& name, const RankedLayout& layout) {
  const spec::StepReport& report = layout.report;
  return {name, LayoutText(layout.parallel), FormatSeconds(report.step_time_s),
          FormatPercent(report.mfu), FormatBytes(static_cast<double>(report.peak_bytes))};
}

}  // namespace

std::string RejectionsText(const SearchResult& search) {
  std::string text = "Ruled out:\n";
  for (const Rejection& rejection : search.rejections) {
    std::string line =
        Concat(FormatPlural(rejection.num_layouts, "layout"), " by ", rejection.constraint);
    if (!rejection.example.message.empty()) {
      line += Concat(" (for one: ", rejection.example.message, ")");
    }
    text += WrapText(line, "  - ");
  }
  return text;
}

std::string BestPracticeText(const BestPractice& practice, const RankedLayout& chosen) {
  TextTable table({"", "layout", "step", "MFU", "memory"});
  table.AddRow(ComparisonRow("choice", chosen));
  const std::string name = Concat("best practice (", practice.rule, ")");
  if (practice.layout) {
    table.AddRow(ComparisonRow(name, *practice.layout));
  } else {
    table.AddRow({name, "infeasible", "", "", ""});
  }
  return table.ToString(2);
}

std::string RepairsText(const std::vector<Repair>& repairs) {
  if (repairs.empty()) return "No single change that was tried makes it fit.\n";
  std::string text = "What would make it fit:\n";
  for (const Repair& repair : repairs) {
    const spec::StepReport& report = repair.layout.report;
    text += WrapText(
        Concat(repair.change, ": ", LayoutText(repair.layout.parallel), " takes ",
               FormatSeconds(report.step_time_s), " a step (", FormatPercent(report.mfu),
               " MFU) and ", FormatBytes(static_cast<double>(report.peak_bytes)), " a device."),
        "  - ");
  }
  return text;
}

}  // namespace tessera::planner
