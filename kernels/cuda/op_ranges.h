// Operations as ranges that NVIDIA's profilers show (NVTX): nsys profile tessera train ...
#pragma once

#include <memory>

#include "cost_model/base/op.h"

namespace tessera::kernels::cuda {

// Opens a range, named by the operation's kind, around each call of the host; without a profiler
// attached that is next to nothing. Null in a build without NVTX's headers. Defined in nvtx/ or
// no_op_ranges.cc.
std::unique_ptr<base::OpObserver> MakeOpRanges();

}  // namespace tessera::kernels::cuda
