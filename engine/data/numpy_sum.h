// numpy.sum of doubles: shares that Megatron-LM computes with it come out equal to the bit.
#pragma once

#include <span>

namespace tessera::engine {

// Pairwise summation in numpy's blocks. Source: numpy,
// numpy/core/src/umath/loops_utils.h.src, pairwise_sum.
double NumpySum(std::span<const double> values);

}  // namespace tessera::engine
