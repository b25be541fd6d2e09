#include "tests/cuda_emulation/nccl/data_movement.h"

#include <cstring>

#include "tests/cuda_emulation/nccl/reduction.h"
#include "tests/cuda_emulation/nccl/settings.h"

namespace tessera::cuda_emulation::nccl {
namespace {

void Copy(void* to, const void* from, int64_t num_bytes) {
  if (to != from && num_bytes > 0) std::memcpy(to, from, static_cast<size_t>(num_bytes));
}

// The result of elements [begin, begin + count) of all ranks' send buffers, written to `result`.
// `block` is the number of the piece, for the order of a ring.
void ReduceRange(const std::vector<NcclCall>& calls, int64_t begin, int64_t count, int64_t block,
                 void* result) {
  const NcclSettings settings = GetNcclSettings();
  const bool as_ring = settings.reduction == NcclReduction::kRing;
  const auto num_ranks = static_cast<int64_t>(calls.size());
  const int64_t first =
      as_ring ? (block + static_cast<int64_t>(settings.seed % 1024) + 1) % num_ranks : 0;
  std::vector<const void*> inputs;
  for (int64_t i = 0; i < num_ranks; ++i) {
    const NcclCall& call = calls[(first + i) % num_ranks];
    inputs.push_back(At(call.send, begin * SizeBytes(call.type)));
  }
  Reduce(inputs, count, calls[0].type, calls[0].op, as_ring, result);
}

void AllReduce(const std::vector<NcclCall>& calls) {
  const auto count = static_cast<int64_t>(calls[0].count);
  const auto num_ranks = static_cast<int64_t>(calls.size());
  const int64_t size_bytes = SizeBytes(calls[0].type);
  for (int64_t block = 0; block < num_ranks; ++block) {
    const int64_t begin = count * block / num_ranks, end = count * (block + 1) / num_ranks;
    std::vector<char> result(static_cast<size_t>((end - begin) * size_bytes));
    ReduceRange(calls, begin, end - begin, block, result.data());
    for (const NcclCall& call : calls) {
      Copy(At(call.receive, begin * size_bytes), result.data(), (end - begin) * size_bytes);
    }
  }
}

// In place, rank r writes block r of its own send buffer, which nobody reads after.
void ReduceScatter(const std::vector<NcclCall>& calls) {
  const auto count = static_cast<int64_t>(calls[0].count);
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    const auto block = static_cast<int64_t>(rank);
    ReduceRange(calls, block * count, count, block, calls[rank].receive);
  }
}

void AllGather(const std::vector<NcclCall>& calls) {
  const int64_t block_bytes = static_cast<int64_t>(calls[0].count) * SizeBytes(calls[0].type);
  for (const NcclCall& to : calls) {
    for (size_t rank = 0; rank < calls.size(); ++rank) {
      Copy(At(to.receive, static_cast<int64_t>(rank) * block_bytes), calls[rank].send, block_bytes);
    }
  }
}

void Broadcast(const std::vector<NcclCall>& calls) {
  const NcclCall& root = calls[calls[0].peer];
  for (const NcclCall& to : calls) {
    Copy(to.receive, root.send, static_cast<int64_t>(root.count) * SizeBytes(root.type));
  }
}

}  // namespace

void RunCollective(const std::vector<NcclCall>& calls) {
  switch (calls[0].kind) {
    case NcclCallKind::kAllReduce:
      return AllReduce(calls);
    case NcclCallKind::kReduceScatter:
      return ReduceScatter(calls);
    case NcclCallKind::kAllGather:
      return AllGather(calls);
    case NcclCallKind::kBroadcast:
      return Broadcast(calls);
    case NcclCallKind::kSend:
    case NcclCallKind::kReceive:
      return;
  }
}

void RunTransfer(const NcclCall& send, const NcclCall& receive) {
  Copy(receive.receive, send.send, static_cast<int64_t>(send.count) * SizeBytes(send.type));
}

}  // namespace tessera::cuda_emulation::nccl
