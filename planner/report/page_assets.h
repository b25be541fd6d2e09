// The files that a page carries in itself: they are compiled into the program, so that a report
// needs neither a network nor an installation.
#pragma once

#include <string_view>

namespace tessera::planner {

std::string_view PageTemplate();  // page.html, with {{name}} where a text goes
std::string_view PageStyle();     // page.css
std::string_view PageScript();    // our scripts, in the order of their use

// Chart.js with its licence line, or an empty text where the program was built without it.
std::string_view ChartLibrary();

}  // namespace tessera::planner
