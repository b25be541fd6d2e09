#include "engine/comm/gloo_collectives.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cost_model/base/error.h"
#include "cost_model/base/math.h"
#include "engine/comm/copy_bytes.h"
#include "engine/comm/reduce.h"
#include "engine/comm/transfers.h"

namespace tessera::engine {
namespace {

// Up to this size all ranks of an all-reduce sum everything, in one round instead of two.
constexpr int64_t kMaxGatheredBytes = 16 * 1024;

const std::byte* At(const void* data, int64_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* At(void* data, int64_t offset) { return static_cast<std::byte*>(data) + offset; }

// One collective of one rank.
class Runner {
 public:
  Runner(GlooGroup& group, GlooWorld::Wait& wait, const CommOp& op)
      : group_(group),
        wait_(wait),
        op_(op),
        transfers_(Transfers::Make(group, op)),
        element_bytes_(SizeBytes(op.header.dtype)),
        piece_(transfers_->piece_bytes() / element_bytes_) {}

  void AllGather(const void* input, void* output) {
    const int64_t block_bytes = op_.header.count * element_bytes_;
    ForEachPeer([&](int peer) { Receive(At(output, peer * block_bytes), block_bytes, peer, 0); });
    SendToAll(input, block_bytes, 0);
    CopyBytes(input, At(output, rank() * block_bytes), block_bytes);
    transfers_->AwaitAll(wait_);
  }

  void ReduceScatter(const void* input, void* output) {
    const int64_t count = op_.header.count;
    ReduceBlocks(
        input, output, [&](int peer) { return peer * count; },
        [](int64_t /*begin*/, int64_t /*num_elements*/) {});
    transfers_->AwaitAll(wait_);
  }

  void AllReduce(const void* input, void* output) {
    const int64_t count = op_.header.count;
    if (count * element_bytes_ <= kMaxGatheredBytes) return AllReduceAtOnce(input, output);
    const auto begin_of = [&](int peer) {
      return std::min(peer * base::CeilDiv(count, size()), count);
    };
    // A sum may come into the block that its rank has been sent from: it comes after it was sent.
    ForEachPeer([&](int peer) {
      const int64_t num_pieces = NumPieces(begin_of, peer);
      for (int64_t i = 0; i < num_pieces; ++i) {
        const auto [begin, n] = Piece(begin_of, peer, i);
        Receive(At(output, begin * element_bytes_), n * element_bytes_, peer, 1);
      }
    });
    std::byte* const own = At(output, begin_of(rank()) * element_bytes_);
    ReduceBlocks(input, own, begin_of, [&](int64_t begin, int64_t n) {
      SendToAll(At(own, begin * element_bytes_), n * element_bytes_, 1);
    });
    transfers_->AwaitAll(wait_);
  }

  void Broadcast(void* data) {
    const int64_t num_bytes = op_.header.count * element_bytes_;
    if (rank() == op_.header.root) {
      SendToAll(data, num_bytes, 0);
    } else {
      Receive(data, num_bytes, op_.header.root, 0);
    }
    transfers_->AwaitAll(wait_);
  }

  void AllToAll(const void* input, void* output) {
    const int64_t block_bytes = op_.header.count * element_bytes_;
    ForEachPeer([&](int peer) { Receive(At(output, peer * block_bytes), block_bytes, peer, 0); });
    ForEachPeer([&](int peer) { Send(At(input, peer * block_bytes), block_bytes, peer, 0); });
    CopyBytes(At(input, rank() * block_bytes), At(output, rank() * block_bytes), block_bytes);
    transfers_->AwaitAll(wait_);
  }

  void Barrier() {
    ForEachPeer([&](int peer) { Receive(nullptr, 0, peer, 0); });
    SendToAll(nullptr, 0, 0);
    transfers_->AwaitAll(wait_);
  }

 private:
  int rank() const { return group_.info().rank; }
  int size() const { return group_.size(); }

  uint64_t Slot(int phase) const { return SlotOf(Traffic::kCollective, op_, phase); }
  void Send(const void* data, int64_t num_bytes, int peer, int phase) {
    transfers_->Send(data, num_bytes, peer, Slot(phase));
  }
  void SendToAll(const void* data, int64_t num_bytes, int phase) {
    transfers_->SendToAll(data, num_bytes, Slot(phase));
  }
  void Receive(void* data, int64_t num_bytes, int peer, int phase) {
    transfers_->Receive(data, num_bytes, peer, Slot(phase));
  }

  // Each rank begins with another peer, so that not all send to one.
  template <typename Do>
  void ForEachPeer(const Do& act) {
    for (int i = 1; i < size(); ++i) act((rank() + i) % size());
  }

  // Of the block of elements from begin_of(peer) to begin_of(the next), which goes in pieces.
  template <typename BeginOf>
  int64_t NumPieces(const BeginOf& begin_of, int peer) const {
    return base::CeilDiv(begin_of(peer + 1) - begin_of(peer), piece_);
  }
  struct Range {
    int64_t begin = 0;
    int64_t num_elements = 0;
  };
  template <typename BeginOf>
  Range Piece(const BeginOf& begin_of, int peer, int64_t index) const {
    const int64_t begin = begin_of(peer) + index * piece_;
    return {begin, std::min(piece_, begin_of(peer + 1) - begin)};
  }

  // Every rank sums the elements of its block of all inputs into `output`, piece by piece;
  // after_piece(begin in the block, elements) follows each.
  template <typename BeginOf, typename AfterPiece>
  void ReduceBlocks(const void* input, void* output, const BeginOf& begin_of,
                    const AfterPiece& after_piece) {
    int64_t num_rounds = 0;
    for (int peer = 0; peer < size(); ++peer) {
      num_rounds = std::max(num_rounds, NumPieces(begin_of, peer));
    }
    const auto send = [&](int64_t index) {
      ForEachPeer([&](int peer) {
        if (index >= NumPieces(begin_of, peer)) return;
        const auto [begin, n] = Piece(begin_of, peer, index);
        Send(At(input, begin * element_bytes_), n * element_bytes_, peer, 0);
      });
    };
    const int64_t num_own = NumPieces(begin_of, rank());
    std::vector<size_t> arriving;
    const auto receive = [&](int64_t index) {
      if (index < num_own) arriving = ReceivePiece(Piece(begin_of, rank(), index).num_elements);
    };
    const int64_t num_ahead = std::min(transfers_->num_pieces_ahead(), num_rounds);
    receive(0);
    for (int64_t i = 0; i < num_ahead; ++i) send(i);
    for (int64_t i = 0; i < num_rounds; ++i) {
      if (i + num_ahead < num_rounds) send(i + num_ahead);
      if (i >= num_own) continue;
      const auto [begin, n] = Piece(begin_of, rank(), i);
      const std::vector<size_t> here = arriving;
      receive(i + 1);
      const int64_t begin_in_block = begin - begin_of(rank());
      Sum(here, At(input, begin * element_bytes_), At(output, begin_in_block * element_bytes_), n);
      after_piece(begin_in_block, n);
      transfers_->Poll();
    }
  }

  // From every other rank; in the order of ForEachPeer.
  std::vector<size_t> ReceivePiece(int64_t num_elements) {
    std::vector<size_t> receives;
    ForEachPeer([&](int peer) {
      receives.push_back(transfers_->ReceiveToRead(num_elements * element_bytes_, peer, Slot(0)));
    });
    return receives;
  }

  // Of what arrives in `receives` and of `own`, this rank's.
  void Sum(const std::vector<size_t>& receives, const void* own, void* output,
           int64_t num_elements) {
    std::vector<const void*> inputs(static_cast<size_t>(size()));
    inputs[static_cast<size_t>(rank())] = own;
    size_t next = 0;
    ForEachPeer([&](int peer) {
      inputs[static_cast<size_t>(peer)] = transfers_->AwaitToRead(wait_, receives[next++]);
    });
    ReduceElements(inputs, 0, {&output, 1}, 0, num_elements, op_.header.dtype, op_.header.op);
    for (const size_t receive : receives) transfers_->Release(receive);
  }

  // All ranks sum everything, in one round instead of two.
  void AllReduceAtOnce(const void* input, void* output) {
    const int64_t count = op_.header.count;
    const std::vector<size_t> receives = ReceivePiece(count);
    SendToAll(input, count * element_bytes_, 0);
    Sum(receives, input, output, count);
    transfers_->AwaitAll(wait_);
  }

  GlooGroup& group_;
  GlooWorld::Wait& wait_;
  const CommOp& op_;
  const std::unique_ptr<Transfers> transfers_;
  const int64_t element_bytes_;
  const int64_t piece_;  // elements
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
  const uint64_t slot = SlotOf(Traffic::kHeaders, op);
  std::vector<CollectiveHeader> headers(static_cast<size_t>(group.size()));
  headers[static_cast<size_t>(group.info().rank)] = op.header;
  const auto transfers = Transfers::Make(group, op);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.info().rank) continue;
    transfers->Receive(&headers[static_cast<size_t>(peer)], sizeof(CollectiveHeader), peer, slot);
    transfers->Send(&op.header, sizeof(CollectiveHeader), peer, slot);
  }
  transfers->AwaitAll(wait);
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
