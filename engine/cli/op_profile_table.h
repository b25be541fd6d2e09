#pragma once

#include <ostream>

#include "engine/train/op_profile.h"

namespace tessera::engine {

// The parts of a step beside the plan's prediction, and the operations that take most of it.
void PrintOpProfile(const OpProfile& profile, const spec::Plan& plan, std::ostream& out);

}  // namespace tessera::engine
