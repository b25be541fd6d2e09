// A self-contained HTML page.
#pragma once

#include <string>
#include <vector>

namespace tessera::planner {

// A JSON text that the page's scripts read by its name.
struct PageData {
  std::string name;
  std::string json;
};

struct Page {
  std::string title;  // plain text
  std::string body;   // HTML
  std::vector<PageData> data;
  bool needs_charts = false;  // carries Chart.js, where the program has it
};

// The text with every place escaped at which HTML could see the end of a script: JSON stays the
// same JSON.
std::string EscapeJsonForScript(const std::string& json);

// The whole document: style, body, data and scripts in one file. A browser opens it without any
// further request, which its content security policy forbids.
std::string PageHtml(const Page& page);

}  // namespace tessera::planner
