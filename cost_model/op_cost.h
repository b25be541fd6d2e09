#pragma once

#include "cost_model/base/op.h"
#include "cost_model/rank_device.h"

namespace tessera::cost_model {

// Seconds of one operation on one rank, communication apart: the larger of arithmetic time and
// memory time (roofline, Williams et al. 2009), each at the efficiency that the cluster's tables
// give for its size, plus the launch overhead. Unfused attention, a chain of kernels, takes the sum
// of both.
double OpSeconds(const base::OpRecord& record, const RankDevice& device);

// Seconds of an operation that only moves `bytes` through device memory.
double MemorySeconds(double bytes, const RankDevice& device);

}  // namespace tessera::cost_model
