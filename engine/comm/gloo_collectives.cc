#include "engine/comm/gloo_collectives.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "cost_model/base/error.h"
#include "cost_model/base/math.h"
#include "engine/comm/gloo_transfers.h"
#include "engine/comm/reduce.h"

namespace tessera::engine {
namespace {

// What a rank sums at a time while the next part arrives.
constexpr int64_t kChunkBytes = 512 * 1024;
// Up to this size an all-reduce gathers all inputs everywhere, in one round instead of two.
constexpr int64_t kMaxGatheredBytes = 16 * 1024;

const std::byte* At(const void* data, int64_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* At(void* data, int64_t offset) { return static_cast<std::byte*>(data) + offset; }

void Copy(const void* from, void* to, int64_t num_bytes) {
  if (from != to && num_bytes > 0) std::memcpy(to, from, static_cast<size_t>(num_bytes));
}

// One collective of one rank.
class Runner {
 public:
  Runner(GlooGroup& group, GlooWorld::Wait& wait, const CommOp& op)
      : group_(group),
        wait_(wait),
        op_(op),
        transfers_(group, op),
        element_bytes_(SizeBytes(op.header.dtype)) {}

  void AllGather(const void* input, void* output) {
    const int64_t block_bytes = op_.header.count * element_bytes_;
    ForEachPeer([&](int peer) { Receive(At(output, peer * block_bytes), block_bytes, peer, 0); });
    ForEachPeer([&](int peer) { Send(input, block_bytes, peer, 0); });
    Copy(input, At(output, rank() * block_bytes), block_bytes);
    transfers_.AwaitAll(wait_);
  }

  void ReduceScatter(const void* input, void* output) {
    const int64_t count = op_.header.count;
    ReduceBlocks(
        input, output, [&](int peer) { return peer * count; },
        [](int64_t /*begin*/, int64_t /*num_elements*/) {});
    transfers_.AwaitAll(wait_);
  }

  void AllReduce(const void* input, void* output) {
    const int64_t count = op_.header.count;
    if (count * element_bytes_ <= kMaxGatheredBytes) return AllReduceAtOnce(input, output);
    const auto begin_of = [&](int peer) {
      return std::min(peer * base::CeilDiv(count, size()), count);
    };
    // A sum may come into the block that its rank has been sent from: it comes after it was sent.
    ForEachPeer([&](int peer) {
      ForEachChunk(begin_of(peer + 1) - begin_of(peer), [&](int64_t begin, int64_t n) {
        Receive(At(output, (begin_of(peer) + begin) * element_bytes_), n * element_bytes_, peer, 1);
      });
    });
    std::byte* const own = At(output, begin_of(rank()) * element_bytes_);
    ReduceBlocks(input, own, begin_of, [&](int64_t begin, int64_t n) {
      ForEachPeer(
          [&](int peer) { Send(At(own, begin * element_bytes_), n * element_bytes_, peer, 1); });
    });
    transfers_.AwaitAll(wait_);
  }

  void Broadcast(void* data) {
    const int64_t num_bytes = op_.header.count * element_bytes_;
    if (rank() == op_.header.root) {
      ForEachPeer([&](int peer) { Send(data, num_bytes, peer, 0); });
    } else {
      Receive(data, num_bytes, op_.header.root, 0);
    }
    transfers_.AwaitAll(wait_);
  }

  void AllToAll(const void* input, void* output) {
    const int64_t block_bytes = op_.header.count * element_bytes_;
    ForEachPeer([&](int peer) { Receive(At(output, peer * block_bytes), block_bytes, peer, 0); });
    ForEachPeer([&](int peer) { Send(At(input, peer * block_bytes), block_bytes, peer, 0); });
    Copy(At(input, rank() * block_bytes), At(output, rank() * block_bytes), block_bytes);
    transfers_.AwaitAll(wait_);
  }

  void Barrier() {
    ForEachPeer([&](int peer) { Receive(nullptr, 0, peer, 0); });
    ForEachPeer([&](int peer) { Send(nullptr, 0, peer, 0); });
    transfers_.AwaitAll(wait_);
  }

 private:
  int rank() const { return group_.info().rank; }
  int size() const { return group_.size(); }

  size_t Send(const void* data, int64_t num_bytes, int peer, int phase) {
    return transfers_.Send(data, num_bytes, peer, GlooSlot(GlooTraffic::kCollective, op_, phase));
  }
  size_t Receive(void* data, int64_t num_bytes, int peer, int phase) {
    return transfers_.Receive(data, num_bytes, peer,
                              GlooSlot(GlooTraffic::kCollective, op_, phase));
  }

  // Each rank begins with another peer, so that not all send to one.
  template <typename Do>
  void ForEachPeer(const Do& act) {
    for (int i = 1; i < size(); ++i) act((rank() + i) % size());
  }

  template <typename Do>
  void ForEachChunk(int64_t num_elements, const Do& act) {
    const int64_t chunk = kChunkBytes / element_bytes_;
    for (int64_t begin = 0; begin < num_elements; begin += chunk) {
      act(begin, std::min(chunk, num_elements - begin));
    }
  }

  // Every rank sums the elements from begin_of(its rank) to begin_of(the next) of all inputs into
  // `output`, chunk by chunk; after_chunk(begin in the block, elements) follows each.
  template <typename BeginOf, typename AfterChunk>
  void ReduceBlocks(const void* input, void* output, const BeginOf& begin_of,
                    const AfterChunk& after_chunk) {
    const int64_t num_own = begin_of(rank() + 1) - begin_of(rank());
    const int64_t chunk_bytes = std::min(kChunkBytes, num_own * element_bytes_);
    // Two halves: one is summed while the other fills.
    std::byte* const scratch = group_.Scratch(2 * size() * chunk_bytes);
    std::vector<std::vector<size_t>> receives;
    const auto receive = [&](int64_t chunk, int64_t n) {
      receives.emplace_back();
      ForEachPeer([&](int peer) {
        std::byte* const into = scratch + (chunk % 2 * size() + peer) * chunk_bytes;
        receives.back().push_back(Receive(into, n * element_bytes_, peer, 0));
      });
    };
    std::vector<std::pair<int64_t, int64_t>> chunks;
    ForEachChunk(num_own, [&](int64_t begin, int64_t n) { chunks.emplace_back(begin, n); });
    if (!chunks.empty()) receive(0, chunks[0].second);
    ForEachPeer([&](int peer) {
      ForEachChunk(begin_of(peer + 1) - begin_of(peer), [&](int64_t begin, int64_t n) {
        Send(At(input, (begin_of(peer) + begin) * element_bytes_), n * element_bytes_, peer, 0);
      });
    });
    for (size_t i = 0; i < chunks.size(); ++i) {
      const auto [begin, n] = chunks[i];
      const auto chunk = static_cast<int64_t>(i);
      if (i + 1 < chunks.size()) receive(chunk + 1, chunks[i + 1].second);
      for (const size_t transfer : receives[i]) transfers_.Await(wait_, transfer);
      std::vector<const void*> inputs(static_cast<size_t>(size()));
      for (int r = 0; r < size(); ++r) {
        inputs[static_cast<size_t>(r)] = scratch + (chunk % 2 * size() + r) * chunk_bytes;
      }
      inputs[static_cast<size_t>(rank())] = At(input, (begin_of(rank()) + begin) * element_bytes_);
      void* const result = At(output, begin * element_bytes_);
      ReduceElements(inputs, 0, {&result, 1}, 0, n, op_.header.dtype, op_.header.op);
      after_chunk(begin, n);
    }
  }

  void AllReduceAtOnce(const void* input, void* output) {
    const int64_t num_bytes = op_.header.count * element_bytes_;
    std::byte* const scratch = group_.Scratch(size() * num_bytes);
    AllGather(input, scratch);
    std::vector<const void*> inputs;
    for (int r = 0; r < size(); ++r) inputs.push_back(scratch + r * num_bytes);
    ReduceElements(inputs, 0, {&output, 1}, 0, op_.header.count, op_.header.dtype, op_.header.op);
  }

  GlooGroup& group_;
  GlooWorld::Wait& wait_;
  const CommOp& op_;
  GlooTransfers transfers_;
  const int64_t element_bytes_;
};

}  // namespace

void RunGlooCollective(GlooGroup& group, GlooWorld::Wait& wait, const CommOp& op, const void* input,
                       void* output) {
  if (group.world().options().checks_calls) CheckGlooHeaders(group, wait, op);
  Runner runner(group, wait, op);
  switch (op.header.kind) {
    case CollectiveKind::kAllReduce:
      return runner.AllReduce(input, output);
    case CollectiveKind::kReduceScatter:
      return runner.ReduceScatter(input, output);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kSplit:  // of what the ranks want
      return runner.AllGather(input, output);
    case CollectiveKind::kBroadcast:
      return runner.Broadcast(output);
    case CollectiveKind::kAllToAll:
      return runner.AllToAll(input, output);
    case CollectiveKind::kBarrier:
      return runner.Barrier();
  }
}

void CheckGlooHeaders(GlooGroup& group, GlooWorld::Wait& wait, const CommOp& op) {
  const uint64_t slot = GlooSlot(GlooTraffic::kHeaders, op);
  std::vector<CollectiveHeader> headers(static_cast<size_t>(group.size()));
  headers[static_cast<size_t>(group.info().rank)] = op.header;
  GlooTransfers transfers(group, op);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.info().rank) continue;
    transfers.Receive(&headers[static_cast<size_t>(peer)], sizeof(CollectiveHeader), peer, slot);
    transfers.Send(&op.header, sizeof(CollectiveHeader), peer, slot);
  }
  transfers.AwaitAll(wait);
  for (int peer = 1; peer < group.size(); ++peer) {
    const CollectiveHeader& other = headers[static_cast<size_t>(peer)];
    if (other == headers[0]) continue;
    const std::string reason = base::Concat(
        "rank ", group.world().rank(), " of ", group.info().name, ": operation #", op.number,
        " differs: rank ", group.world_rank(0), " called ", ToString(headers[0]), ", rank ",
        group.world_rank(peer), " called ", ToString(other));
    group.world().Fail(reason);
    throw base::CommError(reason);
  }
}

}  // namespace tessera::engine
