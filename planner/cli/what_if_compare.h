// --compare of what-if.
#pragma once

#include "planner/cli/what_if_options.h"
#include "planner/what_if/comparison.h"

namespace tessera::planner {

// The two sides that --compare names: a plan file, priced anew; a cluster, with the best layout of
// the job that the other flags describe; or a file with a step's time (ReadStepReport).
// Throws base::ConfigError for what is none of these, base::InfeasibleError where nothing fits.
Comparison MakeComparison(const WhatIfOptions& options);

}  // namespace tessera::planner
