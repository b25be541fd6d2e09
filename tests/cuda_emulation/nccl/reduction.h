// The arithmetic of NCCL's reductions.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <vector>

namespace tessera::cuda_emulation::nccl {

// result[i] = op over inputs[0][i], inputs[1][i], ...: adds in the order of `inputs`. 16-bit floats
// are added in fp32; they are rounded to their type after each addition with `round_each_step`,
// else once. ncclAvg divides the sum by the number of inputs. `result` may be one of the inputs.
void Reduce(const std::vector<const void*>& inputs, int64_t count, ncclDataType_t type,
            ncclRedOp_t op, bool round_each_step, void* result);

}  // namespace tessera::cuda_emulation::nccl
