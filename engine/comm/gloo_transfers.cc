#include "engine/comm/gloo_transfers.h"

#include <gloo/transport/context.h>

#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

// FNV-1a over the bytes of a number.
uint64_t Hash(uint64_t hash, uint64_t number) {
  constexpr uint64_t kPrime = 0x100000001b3;
  for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (number >> (8 * byte) & 0xff)) * kPrime;
  return hash;
}

}  // namespace

uint64_t GlooSlot(GlooTraffic traffic, const CommOp& op, int phase) {
  const CollectiveHeader& header = op.header;
  uint64_t hash = 0xcbf29ce484222325;
  const bool is_header = traffic == GlooTraffic::kHeaders || traffic == GlooTraffic::kMessageHeader;
  if (!is_header) {
    hash = Hash(hash, static_cast<uint64_t>(header.count));
    hash = Hash(hash, static_cast<uint64_t>(header.dtype));
    hash = Hash(hash, static_cast<uint64_t>(header.kind));
    hash = Hash(hash, static_cast<uint64_t>(header.op));
    hash = Hash(hash, static_cast<uint64_t>(header.root));
    hash = Hash(hash, static_cast<uint64_t>(phase));
  }
  // 2 bits of traffic, 30 of number or tag (all-to-alls have -1), 32 of hash.
  const bool is_collective = op.kind == CommOp::Kind::kCollective;
  const uint64_t number = static_cast<uint64_t>(is_collective ? op.number : op.tag) & 0x3fffffff;
  return static_cast<uint64_t>(traffic) << 62 | number << 32 | ((hash ^ hash >> 32) & 0xffffffff);
}

size_t GlooTransfers::Send(const void* data, int64_t num_bytes, int peer, uint64_t slot) {
  return Post(const_cast<void*>(data), num_bytes, peer, slot, /*is_send=*/true);
}

size_t GlooTransfers::Receive(void* data, int64_t num_bytes, int peer, uint64_t slot) {
  return Post(data, num_bytes, peer, slot, /*is_send=*/false);
}

size_t GlooTransfers::Post(void* data, int64_t num_bytes, int peer, uint64_t slot, bool is_send) {
  GlooWorld& world = group_.world();
  if (world.failed()) world.ThrowFailed(group_.info(), op_);
  try {
    auto buffer = group_.context().createUnboundBuffer(data, static_cast<size_t>(num_bytes));
    if (is_send) {
      buffer->send(peer, slot);
    } else {
      buffer->recv(peer, slot);
    }
    transfers_.push_back({std::move(buffer), peer, is_send});
  } catch (const std::exception& error) {
    world.ThrowBroken(group_.info(), op_, group_.world_rank(peer), error.what());
  }
  return transfers_.size() - 1;
}

void GlooTransfers::Await(GlooWorld::Wait& wait, size_t index) {
  Transfer& transfer = transfers_.at(index);
  if (transfer.buffer == nullptr) return;
  const int peer = group_.world_rank(transfer.peer);
  if (transfer.is_send) {
    group_.world().AwaitSend(wait, *transfer.buffer, peer);
  } else {
    group_.world().AwaitReceive(wait, *transfer.buffer, peer);
  }
  transfer.buffer.reset();
}

void GlooTransfers::AwaitAll(GlooWorld::Wait& wait) {
  for (size_t i = 0; i < transfers_.size(); ++i) Await(wait, i);
}

}  // namespace tessera::engine
