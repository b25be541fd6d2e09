// Measures what this machine reaches in the kernels, for a cluster file that the planner reads.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::kernels {

// What one thread reaches at operations of this size.
struct RatePoint {
  double size = 0;  // FLOPs or bytes of one operation
  double rate = 0;  // FLOPs or bytes a second
};

// All rates are of one thread while `num_threads` of them do the same, the best of some tens of
// milliseconds: the cores share clocks, caches and memory, and other work on the machine is left
// out. Sizes ascend.
struct MachineProbe {
  int num_threads = 1;
  // Products of square matrices, c = a b^T.
  std::vector<RatePoint> matmul_flops_per_s;
  // Forward and backward together, of head_dim 64, counting the causal half of 7 products.
  std::vector<RatePoint> attention_flops_per_s;
  // Passes that read two arrays and write one (a residual addition), counting these three.
  std::vector<RatePoint> pass_bytes_per_s;
  // The last of these, over arrays beyond the caches, for all threads together.
  double memory_bandwidth_bytes_per_s = 0;
  // Reads and writes of an optimizer step a second, for all threads together. It updates memory in
  // place, which needs no reading before the writing, and so exceeds the number above.
  double update_bandwidth_bytes_per_s = 0;
  // Least time of an operation, however small.
  double op_overhead_s = 0;
};

// Takes about a second and, at the largest size, 64 MB a thread.
// REQUIRES: num_threads >= 1; more threads than cores measure nothing of use.
MachineProbe ProbeMachine(int num_threads);

}  // namespace tessera::kernels
