// What cannot run as a graph.
#pragma once

#include "cost_model/spec/plan.h"
#include "engine/device/rank_device.h"

namespace tessera::engine {

// Throws base::ConfigError for a run whose steps are no graphs of a GPU: passes that the host has
// to wait in.
void CheckGraphs(const spec::Plan& plan, DeviceKind device, CommKind comm);

}  // namespace tessera::engine
