// The words that CUDA adds to C++, for a host compiler.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
// One copy for each operating-system thread: a block runs on one thread from its start to its end.
#define __shared__ thread_local
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
