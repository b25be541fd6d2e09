// The sends and receives that one operation of a rank is made of, over what its group talks by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/comm/gloo_group.h"

namespace tessera::engine {

// A send and a receive of the same slot meet, in the order of posting. A slot holds what both ends
// must agree on, so that different calls never meet: the kind of traffic, the number of a
// collective or the tag of a message, and a hash of type and size.
enum class Traffic : uint8_t { kMessage = 0, kMessageHeader = 1, kCollective = 2, kHeaders = 3 };
// `phase`: of a collective, 0 or 1.
uint64_t SlotOf(Traffic traffic, const CommOp& op, int phase = 0);

// `peer` is a rank of the group; methods that post return what those that wait take. Buffers must
// stay until the transfers on them are waited for or the object is gone. All that posts or waits
// throws base::CommError.
class Transfers {
 public:
  // Both outlive the transfers.
  static std::unique_ptr<Transfers> Make(GlooGroup& group, const CommOp& op);
  virtual ~Transfers() = default;

  virtual size_t Send(const void* data, int64_t num_bytes, int peer, uint64_t slot) = 0;
  // To every other rank of the group.
  virtual void SendToAll(const void* data, int64_t num_bytes, uint64_t slot) = 0;
  virtual size_t Receive(void* data, int64_t num_bytes, int peer, uint64_t slot) = 0;
  virtual void Await(GlooWorld::Wait& wait, size_t transfer) = 0;
  void AwaitAll(GlooWorld::Wait& wait) {
    for (size_t i = 0; i < size(); ++i) Await(wait, i);
  }
  // Takes in what has come, where that does not happen by itself.
  virtual void Poll() {}

  // To look at what comes where it lies, at most piece_bytes(); of each peer two at a time, the
  // first no shorter than those that follow. The bytes stay until Release.
  virtual int64_t piece_bytes() const = 0;
  virtual size_t ReceiveToRead(int64_t num_bytes, int peer, uint64_t slot) = 0;
  virtual const std::byte* AwaitToRead(GlooWorld::Wait& wait, size_t transfer) = 0;
  virtual void Release(size_t /*transfer*/) {}
  // Pieces of a block that are best sent before the first is waited for.
  virtual int64_t num_pieces_ahead() const = 0;

 protected:
  virtual size_t size() const = 0;
};

}  // namespace tessera::engine
