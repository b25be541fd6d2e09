// One NCCL call of one rank, as data.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::cuda_emulation::nccl {

enum class NcclCallKind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kReceive };

struct NcclCall {
  NcclCallKind kind;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  // as in the call: of one rank's block where there are blocks
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // of reductions
  int peer = -1;             // the root, or the other rank

  bool is_collective() const {
    return kind != NcclCallKind::kSend && kind != NcclCallKind::kReceive;
  }
};

// 0 for a type that the library does not have.
int64_t SizeBytes(ncclDataType_t type);

// "ncclAllReduce of 12 fp32 (sum)".
std::string Describe(const NcclCall& call);

// What differs between two ranks' calls that meet: "count 12 against 13"; empty where they agree. A
// send and its receive agree on count and type, collectives on everything but the buffers.
std::optional<std::string> Difference(const NcclCall& mine, const NcclCall& other);

// A place in a buffer.
inline char* At(void* pointer, int64_t offset_bytes) {
  return static_cast<char*>(pointer) + offset_bytes;
}
inline const char* At(const void* pointer, int64_t offset_bytes) {
  return static_cast<const char*>(pointer) + offset_bytes;
}

// Memory that a call reads or writes.
struct BufferRange {
  const char* name;
  const void* begin;
  int64_t num_bytes;
  bool is_written;
};
std::vector<BufferRange> RangesOf(const NcclCall& call, int rank, int num_ranks);

// Why the calls of one rank in one group must not run, by their buffers; empty where they may.
std::optional<std::string> CheckBuffers(const std::vector<NcclCall>& calls, int rank,
                                        int num_ranks);

}  // namespace tessera::cuda_emulation::nccl
