// The what-if report as a page for a browser.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera::planner {

// One self-contained HTML document of what `document` (the JSON of `tessera what-if`) says, and of
// nothing else: the answer in words, charts, tables, assumptions, formulas, the command. The
// document lies in the page too, as the JSON of the script element "data", but for the timelines.
// Without Chart.js in the program the charts are the static ones that are printed otherwise.
std::string WhatIfHtml(const nlohmann::ordered_json& document);

}  // namespace tessera::planner
