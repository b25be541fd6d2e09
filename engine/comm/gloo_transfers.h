// Transfers over a group's TCP connections: Gloo's own thread carries them out.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <vector>

#include "engine/comm/transfers.h"

namespace tessera::engine {

class GlooTransfers final : public Transfers {
 public:
  GlooTransfers(GlooGroup& group, const CommOp& op) : group_(group), op_(op) {}

  size_t Send(const void* data, int64_t num_bytes, int peer, uint64_t slot) override;
  void SendToAll(const void* data, int64_t num_bytes, uint64_t slot) override;
  size_t Receive(void* data, int64_t num_bytes, int peer, uint64_t slot) override;
  void Await(GlooWorld::Wait& wait, size_t transfer) override;

  int64_t piece_bytes() const override { return 512 * 1024; }
  size_t ReceiveToRead(int64_t num_bytes, int peer, uint64_t slot) override;
  const std::byte* AwaitToRead(GlooWorld::Wait& wait, size_t transfer) override;
  int64_t num_pieces_ahead() const override { return INT64_MAX; }

 protected:
  size_t size() const override { return transfers_.size(); }

 private:
  struct Transfer {
    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer;  // null once waited for
    int peer = 0;
    bool is_send = false;
    const void* data = nullptr;
  };
  size_t Post(void* data, int64_t num_bytes, int peer, uint64_t slot, bool is_send);

  GlooGroup& group_;
  const CommOp& op_;
  std::vector<Transfer> transfers_;
  // What is read lies in the group's scratch memory: one half fills while the other is read.
  std::byte* scratch_ = nullptr;
  int64_t scratch_piece_bytes_ = 0;
  std::vector<int64_t> num_read_;  // by peer
};

}  // namespace tessera::engine
