#pragma once

#include <string>

#include "engine/train/op_profile.h"

namespace tessera::engine {

// The profile as one JSON object: rank and its place, steps, seconds of a step; `groups`, the parts
// of a step beside the plan's prediction (null where it has none); `ops`, the longest first: kind,
// dims (see base::OpKind), count and seconds of a step, share of it, achieved rates.
std::string WriteOpProfile(const OpProfile& profile, const spec::Plan& plan);

}  // namespace tessera::engine
