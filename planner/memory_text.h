// The memory of a layout term by term.
#pragma once

#include <string>

#include "planner/request.h"
#include "planner/search.h"

namespace tessera::planner {

// The fullest stage's terms with their tags, what three ways of measuring would show, the margin of
// the answer whether it fits, and one of its layers tensor by tensor.
std::string MemoryTermsText(const Request& request, const RankedLayout& layout);

}  // namespace tessera::planner
