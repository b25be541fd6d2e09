#pragma once

#include <string>
#include <vector>

#include "engine/device/rank_device.h"

namespace tessera::engine {

// Returns where this executable knows the device. Else becomes tessera-engine-cuda, which lies
// beside it where the project was built for CUDA, with the same arguments; throws base::ConfigError
// where there is none.
void RunWhereDeviceIs(DeviceKind device, const std::vector<std::string>& arguments);

}  // namespace tessera::engine
