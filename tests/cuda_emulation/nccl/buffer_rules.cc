// The rules about the buffers of NCCL calls (NCCL user guide, "Collective Communication Functions"
// and "In-place Operations").
#include "tests/cuda_emulation/nccl/call.h"
#include "tests/cuda_emulation/runtime/device_memory.h"

namespace tessera::cuda_emulation::nccl {
namespace {

bool Overlap(const BufferRange& x, const BufferRange& y) {
  return At(x.begin, 0) < At(y.begin, y.num_bytes) && At(y.begin, 0) < At(x.begin, x.num_bytes);
}

// Whether send and receive buffer are laid out in the way that the library takes as in place.
bool IsInPlace(const NcclCall& call, int rank) {
  const int64_t block_bytes = static_cast<int64_t>(call.count) * SizeBytes(call.type);
  switch (call.kind) {
    case NcclCallKind::kAllReduce:
    case NcclCallKind::kBroadcast:
      return call.send == call.receive;
    case NcclCallKind::kReduceScatter:
      return call.receive == At(call.send, rank * block_bytes);
    case NcclCallKind::kAllGather:
      return call.send == At(call.receive, rank * block_bytes);
    case NcclCallKind::kSend:
    case NcclCallKind::kReceive:
      return false;
  }
  return false;
}

std::optional<std::string> CheckMemory(const NcclCall& call, const BufferRange& range) {
  const std::string name = Describe(call) + ": the " + range.name + " buffer ";
  if (reinterpret_cast<uintptr_t>(range.begin) % SizeBytes(call.type) != 0) {
    return name + "is not aligned to its elements";
  }
  const auto num_bytes = static_cast<size_t>(range.num_bytes);
  if (!IsDeviceMemory(range.begin, num_bytes)) {
    return name + "is not inside one device allocation: " + DescribeMemory(range.begin, num_bytes);
  }
  return std::nullopt;
}

}  // namespace

std::vector<BufferRange> RangesOf(const NcclCall& call, int rank, int num_ranks) {
  const int64_t block_bytes = static_cast<int64_t>(call.count) * SizeBytes(call.type);
  const int64_t all_bytes = num_ranks * block_bytes;
  if (block_bytes == 0) return {};
  switch (call.kind) {
    case NcclCallKind::kAllReduce:
      return {{"send", call.send, block_bytes, false},
              {"receive", call.receive, block_bytes, true}};
    case NcclCallKind::kReduceScatter:
      return {{"send", call.send, all_bytes, false}, {"receive", call.receive, block_bytes, true}};
    case NcclCallKind::kAllGather:
      return {{"send", call.send, block_bytes, false}, {"receive", call.receive, all_bytes, true}};
    case NcclCallKind::kBroadcast:
      if (rank != call.peer) return {{"receive", call.receive, block_bytes, true}};
      return {{"send", call.send, block_bytes, false},
              {"receive", call.receive, block_bytes, true}};
    case NcclCallKind::kSend:
      return {{"send", call.send, block_bytes, false}};
    case NcclCallKind::kReceive:
      return {{"receive", call.receive, block_bytes, true}};
  }
  return {};
}

std::optional<std::string> CheckBuffers(const std::vector<NcclCall>& calls, int rank,
                                        int num_ranks) {
  struct Used {
    const NcclCall* call;
    BufferRange range;
  };
  std::vector<Used> used;
  for (const NcclCall& call : calls) {
    for (const BufferRange& range : RangesOf(call, rank, num_ranks)) {
      if (auto problem = CheckMemory(call, range)) return problem;
      for (const Used& other : used) {
        const bool in_place = other.call == &call && IsInPlace(call, rank);
        if ((range.is_written || other.range.is_written) && !in_place &&
            Overlap(range, other.range)) {
          return Describe(call) + ": its " + range.name + " buffer overlaps the " +
                 other.range.name + " buffer of " +
                 (other.call == &call ? "the same call" : Describe(*other.call));
        }
      }
      used.push_back({&call, range});
    }
  }
  return std::nullopt;
}

}  // namespace tessera::cuda_emulation::nccl
