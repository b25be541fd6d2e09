// The messages from one rank of a group to another: sends and receives matched by tag in order of
// posting. Data goes straight from the sender's buffer to the receiver's when the two meet while
// both are pending; a sender that does not want to wait leaves a copy behind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cost_model/base/dtype.h"
#include "engine/comm/event_count.h"

namespace tessera::engine {

struct Envelope {
  int tag = 0;
  base::DType dtype = base::DType::kUInt8;
  int64_t count = 0;  // elements
  bool operator==(const Envelope&) const = default;
};

// Owned by the rank that posts it, which withdraws it before it goes.
struct PendingSend {
  Envelope envelope;
  const void* data = nullptr;
  std::atomic<bool> done{false};  // the data may change
};
struct PendingRecv {
  Envelope envelope;
  void* data = nullptr;
  std::atomic<bool> done{false};  // the data is there
};

class Mailbox {
 public:
  // Delivers the message, or keeps `send` as pending until a receive with its tag is posted.
  // Returns the envelope of a receive that has the tag but not the size or type; nothing is
  // delivered then.
  std::optional<Envelope> Post(PendingSend& send);
  std::optional<Envelope> Post(PendingRecv& recv);

  // Copies a pending send's data, so that it is done without its receive.
  void Buffer(PendingSend& send);

  // Takes back what is still pending; false when it is done.
  bool Withdraw(PendingSend& send);
  bool Withdraw(PendingRecv& recv);

  // Notified when a send or a receive is done.
  EventCount& event() { return event_; }

 private:
  // Memory of a buffered message; kept for the next one, because fresh pages are slow.
  struct Storage {
    std::unique_ptr<std::byte[]> bytes;
    int64_t capacity_bytes = 0;
  };
  struct Message {
    Envelope envelope;
    const void* data = nullptr;
    PendingSend* send = nullptr;  // null once buffered
    Storage storage;
  };

  Storage TakeStorage(int64_t num_bytes);

  std::mutex mutex_;  // of all below, held while copying
  std::list<Message> messages_;
  std::vector<PendingRecv*> receives_;
  std::vector<Storage> free_storage_;
  EventCount event_;
};

}  // namespace tessera::engine
