// What the what-if report says first.
#pragma once

#include <string>

#include "planner/report/what_if_view_json.h"

namespace tessera::planner {

// "What if: llama3-70b on dgx-h100 and dgx-b200": plain text.
std::string WhatIfTitle(const WhatIfView& view);
// The same as HTML, with names that lines do not break.
std::string WhatIfHeading(const WhatIfView& view);

// The answer in a sentence, what would make it possible where it is not, the summary's sentences,
// and the numbers of the answer's point: HTML.
std::string WhatIfSummary(const WhatIfView& view);

// Check boxes for groups and styles; empty where there is nothing to choose.
std::string WhatIfFilters(const WhatIfView& view);

}  // namespace tessera::planner
