// What a rank is sent through the shared memory of one other rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/comm/mail_layout.h"

namespace tessera::engine {

// Letters of a slot belong to who expects them, in the order of Expect. Safe to call from every
// thread of the rank.
class MailInbox {
 public:
  // The sender's file, see SharedFile; `reader` is this rank of the world.
  MailInbox(const std::string& ticket, int reader);

  // The next letters of the slot, so many, are the caller's; returns the first one's number.
  int64_t Expect(const MailSlot& slot, int64_t num_letters);

  struct Mail {
    const std::byte* bytes = nullptr;
    int64_t num_bytes = 0;
  };
  // Nullopt where it has not come yet.
  std::optional<Mail> Find(const MailSlot& slot, int64_t number);
  // The caller is done with it.
  void Release(const MailSlot& slot, int64_t number);

  // Wakes the sender.
  EventCount& sender_bell() { return *sender_bell_; }

 private:
  struct Hash {
    size_t operator()(const MailSlot& slot) const { return slot.group * 31 + slot.slot; }
  };
  // The letters of a slot; null: released.
  struct Lane {
    int64_t num_expected = 0;
    int64_t num_gone = 0;  // letters that came before those in the queue
    std::vector<MailLetter*> letters;
  };

  void ReadChain();

  std::mutex mutex_;  // of what follows
  SharedFile file_;
  EventCount* sender_bell_;
  MailLetter* last_;  // read of the chain
  std::unordered_map<MailSlot, Lane, Hash> lanes_;
};

}  // namespace tessera::engine
