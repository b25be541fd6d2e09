// One rank's mail with the other ranks of its host, through memory that they share.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/mail_inbox.h"
#include "engine/comm/mail_outbox.h"

namespace tessera::engine {

class HostMail {
 public:
  // Throws base::SystemError where the host gives no memory to share.
  explicit HostMail(int num_ranks)
      : outbox_(file_, num_ranks),
        bell_(*reinterpret_cast<EventCount*>(file_.At(kMailBell))),
        inboxes_(static_cast<size_t>(num_ranks)) {}

  // By which the others open what this rank sends.
  const std::string& ticket() const { return file_.ticket(); }
  // Opens what rank `sender` of the world sends to rank `reader`, this one, where that is not open
  // yet. Throws base::SystemError where it is not within reach.
  void Open(int sender, const std::string& ticket, int reader) {
    std::unique_ptr<MailInbox>& inbox = inboxes_.at(static_cast<size_t>(sender));
    if (inbox == nullptr) inbox = std::make_unique<MailInbox>(ticket, reader);
  }

  MailOutbox& outbox() { return outbox_; }
  // REQUIRES: Open.
  MailInbox& From(int sender) { return *inboxes_[static_cast<size_t>(sender)]; }
  // As MailOutbox::Send, and wakes the readers. REQUIRES: Open of each.
  MailOutbox::Sent Send(const void* data, int64_t num_bytes, std::span<const int> readers,
                        const MailSlot& slot) {
    const MailOutbox::Sent sent = outbox_.Send(data, num_bytes, readers, slot);
    for (const int reader : readers) From(reader).sender_bell().NotifyAll();
    return sent;
  }
  // Rings when mail has come, or mail of this rank was read.
  EventCount& bell() { return bell_; }

 private:
  SharedFile file_;
  MailOutbox outbox_;
  EventCount& bell_;
  std::vector<std::unique_ptr<MailInbox>> inboxes_;  // by sender; null: not open
};

}  // namespace tessera::engine
