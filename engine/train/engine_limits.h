#pragma once

#include <string>

#include "cost_model/spec/plan.h"

namespace tessera::engine {

// Throws base::InfeasibleError naming everything in the plan that breaks a layout rule, or that can
// be planned but not executed here (axes, precisions and sharding stages without an engine).
void CheckExecutable(const spec::Plan& plan);

}  // namespace tessera::engine
