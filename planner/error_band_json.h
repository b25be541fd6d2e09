// The error to expect of an estimate, as the validation against measurements found it.
#pragma once

#include "planner/request.h"

namespace tessera::planner {

// From configs/measurements/error_band.json. Throws base::ConfigError where there is none.
ErrorBand LoadErrorBand();

}  // namespace tessera::planner
