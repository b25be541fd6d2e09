// The scores as a page for a browser.
#pragma once

#include <string>

#include "planner/validation/validation.h"

namespace tessera::planner {

// One self-contained HTML document, with no outside reference: a summary in words, a scatter plot
// of step times, a table of sources and one of all rows that sorts by a click on a header. Light or
// dark as the reader prefers.
std::string ValidationHtml(const Validation& validation);

}  // namespace tessera::planner
