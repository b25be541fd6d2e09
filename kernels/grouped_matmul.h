// A grouped product as plain ones: for backends that run one after the other, or share them out.
#pragma once

#include <vector>

#include "kernels/expert_args.h"
#include "kernels/op_args.h"

namespace tessera::kernels {

// One product for each group that has rows, in the order of the groups.
std::vector<MatMulArgs> ProductsOf(const GroupedMatMulArgs& args);
// The same of sums over rows.
std::vector<BiasGradArgs> SumsOf(const GroupedBiasGradArgs& args);

}  // namespace tessera::kernels
