// The tables of the what-if report.
#pragma once

#include <vector>

#include "planner/report/table.h"
#include "planner/report/what_if_view_json.h"

namespace tessera::planner {

// All points; columns that no point has a number for are left out. Rows carry their point and the
// keys of the page's filters.
Table PointsTable(const WhatIfView& view);

// The rest, each without rows where the document says nothing about it.
Table MarginsTable(const WhatIfView& view);     // what a change would bring
Table CrossoversTable(const WhatIfView& view);  // where the best layout changes
Table ClustersTable(const WhatIfView& view);
Table AssumptionsTable(const WhatIfView& view);
Table FormulasTable(const WhatIfView& view);

}  // namespace tessera::planner
