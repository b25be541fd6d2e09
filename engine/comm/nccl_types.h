// Our element types, reductions and settings in NCCL's words.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "cost_model/base/check.h"
#include "cost_model/base/dtype.h"
#include "cost_model/base/op.h"

namespace tessera::engine {

inline ncclDataType_t NcclReducibleType(base::DType dtype) {
  switch (dtype) {
    case base::DType::kFloat32:
      return ncclFloat32;
    case base::DType::kBFloat16:
      return ncclBfloat16;
    case base::DType::kFloat16:
      return ncclFloat16;
    case base::DType::kInt32:
      return ncclInt32;
    case base::DType::kInt64:
      return ncclInt64;
    case base::DType::kUInt8:
      return ncclUint8;
    case base::DType::kUInt16:
    case base::DType::kFloat8:
    case base::DType::kFloat4:
      break;
  }
  base::FailCheck(__FILE__, __LINE__, "reducible dtype", base::ToString(dtype));
}

// What only travels goes as bytes where NCCL has no such type.
struct NcclElements {
  ncclDataType_t type = ncclUint8;
  size_t count = 0;
};

inline NcclElements NcclElementsOf(int64_t count, base::DType dtype) {
  switch (dtype) {
    case base::DType::kUInt16:
    case base::DType::kFloat8:
    case base::DType::kFloat4:
      return {ncclUint8, static_cast<size_t>(count * base::SizeBytes(dtype))};
    default:
      return {NcclReducibleType(dtype), static_cast<size_t>(count)};
  }
}

inline ncclRedOp_t NcclOpOf(base::ReduceOp op) {
  switch (op) {
    case base::ReduceOp::kSum:
      return ncclSum;
    case base::ReduceOp::kMax:
      return ncclMax;
    case base::ReduceOp::kMin:
      return ncclMin;
    case base::ReduceOp::kAvg:
      return ncclAvg;
  }
  base::FailCheck(__FILE__, __LINE__, "reduction", static_cast<int>(op));
}

// Calls return when they are done; NCCL's own messages call the communicator `name`, which must
// outlive it.
inline ncclConfig_t MakeNcclConfig(const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.commName = name;
  return config;
}

}  // namespace tessera::engine
