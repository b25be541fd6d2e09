// The sends and receives that one operation is made of.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/comm/gloo_group.h"

namespace tessera::engine {

// Gloo matches a send with a receive of the same slot, in the order of posting. A slot holds what
// both ends must agree on, so that different calls never meet: the kind of traffic, the number of
// a collective or the tag of a message, and a hash of type and size.
enum class GlooTraffic : uint8_t {
  kMessage = 0,
  kMessageHeader = 1,
  kCollective = 2,
  kHeaders = 3
};
// `phase`: of a collective, 0 or 1.
uint64_t GlooSlot(GlooTraffic traffic, const CommOp& op, int phase = 0);

// Buffers must stay until the transfers on them are waited for or the object is gone.
class GlooTransfers {
 public:
  // All outlive the transfers.
  GlooTransfers(GlooGroup& group, const CommOp& op) : group_(group), op_(op) {}

  // Posted at once. `peer` is a rank of the group; returns what Await takes.
  size_t Send(const void* data, int64_t num_bytes, int peer, uint64_t slot);
  size_t Receive(void* data, int64_t num_bytes, int peer, uint64_t slot);
  // Throws base::CommError.
  void Await(GlooWorld::Wait& wait, size_t transfer);
  void AwaitAll(GlooWorld::Wait& wait);

 private:
  struct Transfer {
    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer;  // null once waited for
    int peer = 0;
    bool is_send = false;
  };
  size_t Post(void* data, int64_t num_bytes, int peer, uint64_t slot, bool is_send);

  GlooGroup& group_;
  const CommOp& op_;
  std::vector<Transfer> transfers_;
};

}  // namespace tessera::engine
