// Element-wise reductions of host memory in a fixed order.
#pragma once

#include <cstdint>
#include <span>

#include "cost_model/base/dtype.h"
#include "cost_model/base/op.h"

namespace tessera::engine {

// For i in [0, count): the reduction of inputs[k][input_offset + i] over k in ascending order goes
// to every outputs[j][output_offset + i]. Offsets and counts are elements. An output may be an
// input, element for element; otherwise they must not overlap.
//
// fp32 adds in fp32; bf16 and fp16 add in fp32 and round once; int32 and uint8 add in a wider type,
// int64 modulo 2^64, and the result wraps into the type. kAvg divides the sum by the number of
// inputs (integers: toward zero). A NaN in any input makes the result NaN, of kMax and kMin too.
// REQUIRES: inputs is not empty; dtype is one of fp32, bf16, fp16, int32, int64, uint8.
void ReduceElements(std::span<const void* const> inputs, int64_t input_offset,
                    std::span<void* const> outputs, int64_t output_offset, int64_t count,
                    base::DType dtype, base::ReduceOp op);

}  // namespace tessera::engine
