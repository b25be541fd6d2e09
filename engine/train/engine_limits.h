#pragma once

#include <string>

#include "cost_model/spec/plan.h"
#include "engine/device/rank_device.h"

namespace tessera::engine {

// Throws base::InfeasibleError naming everything in the plan that breaks a layout rule, or that can
// be planned but not executed on such a device (axes, precisions, sharding stages without an
// engine).
void CheckExecutable(const spec::Plan& plan, DeviceKind device);

}  // namespace tessera::engine
