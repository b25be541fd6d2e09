#include "planner/report/page.h"

#include <string_view>
#include <utility>

#include "cost_model/base/check.h"
#include "planner/report/html_text.h"
#include "planner/report/page_assets.h"

namespace tessera::planner {
namespace {

// The template with each {{name}} replaced by its text, in one pass: texts are not looked into.
std::string Fill(std::string_view text,
                 const std::vector<std::pair<std::string_view, std::string_view>>& values) {
  std::string filled;
  while (true) {
    const size_t begin = text.find("{{");
    if (begin == std::string_view::npos) break;
    const size_t end = text.find("}}", begin);
    TESSERA_CHECK(end != std::string_view::npos, "a name without end in the page's template");
    const std::string_view name = text.substr(begin + 2, end - begin - 2);
    filled += text.substr(0, begin);
    bool is_known = false;
    for (const auto& [key, value] : values) {
      if (key != name) continue;
      filled += value;
      is_known = true;
    }
    TESSERA_CHECK(is_known, "the page's template names ", name);
    text.remove_prefix(end + 2);
  }
  return filled += text;
}

}  // namespace

std::string EscapeJsonForScript(const std::string& json) {
  std::string escaped;
  escaped.reserve(json.size());
  for (const char c : json) {
    // "</script" and "<!--" begin with it, and it occurs inside JSON strings only.
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string PageHtml(const Page& page) {
  std::string data;
  for (const PageData& item : page.data) {
    data += base::Concat("<script type=\"application/json\" id=\"", EscapeHtml(item.name), "\">",
                         EscapeJsonForScript(item.json), "</script>\n");
  }
  return Fill(PageTemplate(), {{"title", EscapeHtml(page.title)},
                               {"style", PageStyle()},
                               {"body", page.body},
                               {"data", data},
                               {"library", page.needs_charts ? ChartLibrary() : ""},
                               {"script", PageScript()}});
}

}  // namespace tessera::planner
