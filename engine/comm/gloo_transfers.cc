#include "engine/comm/gloo_transfers.h"

#include <gloo/transport/context.h>

#include <utility>

namespace tessera::engine {

size_t GlooTransfers::Send(const void* data, int64_t num_bytes, int peer, uint64_t slot) {
  // Gloo's buffers serve both directions.
  return Post(const_cast<void*>(data), num_bytes, peer, slot, /*is_send=*/true);
}

void GlooTransfers::SendToAll(const void* data, int64_t num_bytes, uint64_t slot) {
  // Each rank begins with another peer, so that not all send to one.
  for (int i = 1; i < group_.size(); ++i) {
    Send(data, num_bytes, (group_.info().rank + i) % group_.size(), slot);
  }
}

size_t GlooTransfers::Receive(void* data, int64_t num_bytes, int peer, uint64_t slot) {
  return Post(data, num_bytes, peer, slot, /*is_send=*/false);
}

size_t GlooTransfers::ReceiveToRead(int64_t num_bytes, int peer, uint64_t slot) {
  if (scratch_ == nullptr) {
    scratch_piece_bytes_ = num_bytes;
    scratch_ = group_.Scratch(2 * group_.size() * num_bytes);
    num_read_.resize(static_cast<size_t>(group_.size()));
  }
  const int64_t half = num_read_[static_cast<size_t>(peer)]++ % 2;
  std::byte* const into = scratch_ + (half * group_.size() + peer) * scratch_piece_bytes_;
  return Receive(into, num_bytes, peer, slot);
}

const std::byte* GlooTransfers::AwaitToRead(GlooWorld::Wait& wait, size_t transfer) {
  Await(wait, transfer);
  return static_cast<const std::byte*>(transfers_.at(transfer).data);
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
    transfers_.push_back({std::move(buffer), peer, is_send, data});
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

}  // namespace tessera::engine
