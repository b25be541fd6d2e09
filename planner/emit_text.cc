#include "planner/emit_text.h"

#include <array>
#include <charconv>
#include <sstream>

#include "cost_model/base/check.h"
#include "planner/layout_text.h"
#include "planner/text_format.h"

namespace tessera::planner {

using base::Concat;

std::string CommentLines(const std::string& text, const std::string& prefix) {
  constexpr std::size_t kColumns = 100;
  std::istringstream words(text);
  std::string lines;
  std::string line = prefix;
  for (std::string word; words >> word;) {
    const bool is_first = line.size() == prefix.size();
    if (!is_first && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line = prefix;
    } else if (!is_first) {
      line += ' ';
    }
    line += word;
  }
  return lines + line + "\n";
}

std::string HeaderText(const spec::Plan& plan, const std::string& what) {
  std::string text = CommentLines(what);
  text +=
      CommentLines(Concat("Plan: ", plan.model.name, " on ", FormatCount(plan.num_devices),
                          " devices of ", plan.cluster.name, ", ", LayoutText(plan.parallel), "."));
  if (!plan.prediction) return text;
  const spec::StepReport& report = *plan.prediction;
  return text + CommentLines(Concat(
                    "Predicted by tessera: ", FormatSeconds(report.step_time_s), " a step, ",
                    FormatCount(static_cast<int64_t>(report.tokens_per_s)), " tokens/s, MFU ",
                    FormatPercent(report.mfu), ", ",
                    FormatBytes(static_cast<double>(report.peak_bytes)), " a device at most."));
}

std::string WarningsText(const std::vector<std::string>& warnings) {
  if (warnings.empty()) return "";
  std::string text = "#\n# Where the program differs from the plan:\n";
  for (const std::string& warning : warnings) text += CommentLines("- " + warning);
  return text;
}

std::string NumberText(double value) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  TESSERA_CHECK(error == std::errc(), "a number longer than its buffer");
  std::string text(buffer.data(), end);
  const std::size_t exponent = text.find('e');
  if (text.find('.') == std::string::npos) {
    text.insert(std::min(exponent, text.size()), ".0");  // YAML and TOML tell 1e-8 from a float
  }
  return text;
}

}  // namespace tessera::planner
