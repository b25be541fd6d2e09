// Pieces of HTML pages.
#pragma once

#include <string>

namespace tessera::planner {

// Text with the characters escaped that HTML gives a meaning.
std::string EscapeHtml(const std::string& text);

}  // namespace tessera::planner
