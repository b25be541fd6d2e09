#pragma once

#include "cost_model/base/op.h"
#include "cost_model/kernel_time.h"
#include "cost_model/rank_device.h"

namespace tessera::cost_model {

// One operation on one rank, communication apart: seconds on the device and the kernels that the
// runtime launches for it. Products and attention by shape where the cluster describes its kernels,
// else at the efficiency that its tables give for their size; everything else by the bytes moved.
KernelTime OpTime(const base::OpRecord& record, const RankDevice& device);

// The seconds on the device alone.
double OpSeconds(const base::OpRecord& record, const RankDevice& device);

// Seconds of an operation that only moves `bytes` through device memory.
double MemorySeconds(double bytes, const RankDevice& device);

}  // namespace tessera::cost_model
