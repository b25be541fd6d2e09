// Transfers through memory that the ranks of a host share. A send is copied there and is done; a
// receive is copied out by the thread that waits for it, or read where it lies.
#pragma once

#include <vector>

#include "engine/comm/host_mail.h"
#include "engine/comm/transfers.h"

namespace tessera::engine {

class MailTransfers final : public Transfers {
 public:
  MailTransfers(GlooGroup& group, const CommOp& op)
      : group_(group), mail_(*group.mail()), op_(op) {}

  size_t Send(const void* data, int64_t num_bytes, int peer, uint64_t slot) override;
  void SendToAll(const void* data, int64_t num_bytes, uint64_t slot) override;
  size_t Receive(void* data, int64_t num_bytes, int peer, uint64_t slot) override;
  void Await(GlooWorld::Wait& wait, size_t transfer) override;
  void Poll() override;

  int64_t piece_bytes() const override { return kMaxMailBytes; }
  size_t ReceiveToRead(int64_t num_bytes, int peer, uint64_t slot) override;
  const std::byte* AwaitToRead(GlooWorld::Wait& wait, size_t transfer) override;
  void Release(size_t transfer) override;
  // One is sent while another is summed.
  int64_t num_pieces_ahead() const override { return 1; }

 protected:
  size_t size() const override { return transfers_.size(); }

 private:
  struct Transfer {
    bool is_send = false;
    MailOutbox::Sent sent;  // its last letter
    // Of a receive:
    int sender = 0;  // rank of the world
    MailSlot slot;
    std::byte* into = nullptr;
    int64_t num_bytes = 0;
    int64_t first_letter = 0;
    int64_t num_letters = 0;
    int64_t num_taken = 0;
  };

  size_t SendTo(std::span<const int> readers, const void* data, int64_t num_bytes, uint64_t slot);
  size_t Expect(std::byte* into, int64_t num_bytes, int peer, uint64_t slot);
  MailSlot SlotInGroup(uint64_t slot) const { return {group_.mail_number(), slot}; }
  // The next letter of a receive, if it has come.
  std::optional<MailInbox::Mail> Next(const Transfer& transfer);
  bool TakeNext(Transfer& transfer);

  GlooGroup& group_;
  HostMail& mail_;
  const CommOp& op_;
  std::vector<Transfer> transfers_;
  std::vector<size_t> receives_;  // that are not over, but for those that are read in place
};

}  // namespace tessera::engine
