#include "tests/cuda_emulation/nccl/call.h"

namespace tessera::cuda_emulation::nccl {
namespace {

const char* Name(NcclCallKind kind) {
  switch (kind) {
    case NcclCallKind::kAllReduce:
      return "ncclAllReduce";
    case NcclCallKind::kReduceScatter:
      return "ncclReduceScatter";
    case NcclCallKind::kAllGather:
      return "ncclAllGather";
    case NcclCallKind::kBroadcast:
      return "ncclBroadcast";
    case NcclCallKind::kSend:
      return "ncclSend";
    case NcclCallKind::kReceive:
      return "ncclRecv";
  }
  return "?";
}

const char* Name(ncclDataType_t type) {
  constexpr const char* kNames[] = {"int8",   "uint8", "int32", "uint32", "int64",
                                    "uint64", "fp16",  "fp32",  "fp64",   "bf16"};
  return SizeBytes(type) > 0 ? kNames[type] : "unknown type";
}

const char* Name(ncclRedOp_t op) {
  constexpr const char* kNames[] = {"sum", "product", "max", "min", "average"};
  return op >= 0 && op < ncclNumOps ? kNames[op] : "unknown operation";
}

bool Reduces(NcclCallKind kind) {
  return kind == NcclCallKind::kAllReduce || kind == NcclCallKind::kReduceScatter;
}

}  // namespace

int64_t SizeBytes(ncclDataType_t type) {
  constexpr int64_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type <= ncclBfloat16 ? kBytes[type] : 0;
}

std::string Describe(const NcclCall& call) {
  std::string text =
      std::string(Name(call.kind)) + " of " + std::to_string(call.count) + " " + Name(call.type);
  if (Reduces(call.kind)) text += std::string(" (") + Name(call.op) + ")";
  if (call.kind == NcclCallKind::kBroadcast) text += " from rank " + std::to_string(call.peer);
  if (call.kind == NcclCallKind::kSend) text += " to rank " + std::to_string(call.peer);
  if (call.kind == NcclCallKind::kReceive) text += " from rank " + std::to_string(call.peer);
  return text;
}

std::optional<std::string> Difference(const NcclCall& mine, const NcclCall& other) {
  const auto against = [](const std::string& what, const auto& x, const auto& y) {
    return what + " " + x + " against " + y;
  };
  if (mine.is_collective() && mine.kind != other.kind) {
    return against("operation", Name(mine.kind), Name(other.kind));
  }
  if (mine.count != other.count) {
    return against("count", std::to_string(mine.count), std::to_string(other.count));
  }
  if (mine.type != other.type) return against("type", Name(mine.type), Name(other.type));
  if (Reduces(mine.kind) && mine.op != other.op) {
    return against("reduction", Name(mine.op), Name(other.op));
  }
  if (mine.kind == NcclCallKind::kBroadcast && mine.peer != other.peer) {
    return against("root", std::to_string(mine.peer), std::to_string(other.peer));
  }
  return std::nullopt;
}

}  // namespace tessera::cuda_emulation::nccl
