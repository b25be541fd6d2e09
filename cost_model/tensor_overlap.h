// Tensor-parallel communication beside the matrix products next to it in an op list.
#pragma once

#include <vector>

#include "cost_model/spec/op_list.h"

namespace tessera::cost_model {

struct TensorOverlap {
  // Beyond what the op list runs beside the next operation: all-gathers and reduce-scatters are cut
  // into pieces, one a rank, and pipelined with the product that reads or writes them (Wang et al.
  // 2023, doi:10.1145/3567955.3567959).
  bool in_pieces = false;
  double slowdown = 0;  // of the products meanwhile, see overlap.h
};

// `seconds` holds what each operation takes alone, in the order of `ops`; those of tensor-parallel
// collectives become what they add to the products beside them. Every product hides one collective.
void HideTensorCommunication(const std::vector<spec::Op>& ops, const TensorOverlap& overlap,
                             std::vector<double>& seconds);

}  // namespace tessera::cost_model
