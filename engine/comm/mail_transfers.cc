#include "engine/comm/mail_transfers.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"
#include "engine/comm/copy_bytes.h"

namespace tessera::engine {
namespace {

// What a rank may have sent without its being read before a collective waits for its readers, so
// that none runs ahead of the others without end.
constexpr int64_t kMaxUnreadBytes = 64 << 20;

// Nothing at all is a letter too.
int64_t NumLetters(int64_t num_bytes) {
  return std::max<int64_t>(1, base::CeilDiv(num_bytes, kMaxMailBytes));
}

}  // namespace

size_t MailTransfers::SendTo(std::span<const int> readers, const void* data, int64_t num_bytes,
                             uint64_t slot) {
  GlooWorld& world = group_.world();
  if (world.failed()) world.ThrowFailed(group_.info(), op_);
  Transfer transfer = {.is_send = true};
  const int64_t num_letters = NumLetters(num_bytes);
  for (int64_t i = 0; i < num_letters; ++i) {
    const int64_t begin = i * kMaxMailBytes;
    const auto* const piece =
        data == nullptr ? nullptr : static_cast<const std::byte*>(data) + begin;
    transfer.sent =
        mail_.Send(piece, std::min(kMaxMailBytes, num_bytes - begin), readers, SlotInGroup(slot));
    Poll();  // what the caches still have
  }
  transfers_.push_back(transfer);
  return transfers_.size() - 1;
}

size_t MailTransfers::Send(const void* data, int64_t num_bytes, int peer, uint64_t slot) {
  const int reader = group_.world_rank(peer);
  return SendTo({&reader, 1}, data, num_bytes, slot);
}

void MailTransfers::SendToAll(const void* data, int64_t num_bytes, uint64_t slot) {
  std::vector<int> readers = group_.info().world_ranks;
  std::erase(readers, group_.world().rank());
  SendTo(readers, data, num_bytes, slot);
}

size_t MailTransfers::Expect(std::byte* into, int64_t num_bytes, int peer, uint64_t slot) {
  GlooWorld& world = group_.world();
  if (world.failed()) world.ThrowFailed(group_.info(), op_);
  Transfer transfer = {.sender = group_.world_rank(peer),
                       .slot = SlotInGroup(slot),
                       .into = into,
                       .num_bytes = num_bytes,
                       .num_letters = NumLetters(num_bytes)};
  transfer.first_letter = mail_.From(transfer.sender).Expect(transfer.slot, transfer.num_letters);
  transfers_.push_back(transfer);
  return transfers_.size() - 1;
}

size_t MailTransfers::Receive(void* data, int64_t num_bytes, int peer, uint64_t slot) {
  const size_t index = Expect(static_cast<std::byte*>(data), num_bytes, peer, slot);
  receives_.push_back(index);
  return index;
}

size_t MailTransfers::ReceiveToRead(int64_t num_bytes, int peer, uint64_t slot) {
  TESSERA_CHECK(num_bytes <= kMaxMailBytes, num_bytes, " bytes");
  return Expect(nullptr, num_bytes, peer, slot);
}

std::optional<MailInbox::Mail> MailTransfers::Next(const Transfer& transfer) {
  auto mail =
      mail_.From(transfer.sender).Find(transfer.slot, transfer.first_letter + transfer.num_taken);
  const int64_t expected =
      std::min(kMaxMailBytes, transfer.num_bytes - transfer.num_taken * kMaxMailBytes);
  TESSERA_CHECK(!mail || mail->num_bytes == expected, mail->num_bytes, " bytes of rank ",
                transfer.sender, " instead of ", expected);
  return mail;
}

bool MailTransfers::TakeNext(Transfer& transfer) {
  const auto mail = Next(transfer);
  if (!mail) return false;
  CopyBytes(mail->bytes, transfer.into + transfer.num_taken * kMaxMailBytes, mail->num_bytes);
  mail_.From(transfer.sender).Release(transfer.slot, transfer.first_letter + transfer.num_taken);
  ++transfer.num_taken;
  return true;
}

void MailTransfers::Poll() {
  const Transfer* blocked = nullptr;
  std::erase_if(receives_, [&](size_t index) {
    Transfer& transfer = transfers_[index];
    // Of a slot letters come in order.
    const bool is_behind =
        blocked != nullptr && blocked->sender == transfer.sender && blocked->slot == transfer.slot;
    if (is_behind) return false;
    while (transfer.num_taken < transfer.num_letters) {
      if (TakeNext(transfer)) continue;
      blocked = &transfer;
      return false;
    }
    return true;
  });
}

void MailTransfers::Await(GlooWorld::Wait& wait, size_t index) {
  Transfer& transfer = transfers_.at(index);
  GlooWorld& world = group_.world();
  if (transfer.is_send) {
    // A message's reader may first wait for one of this rank.
    if (op_.kind != CommOp::Kind::kCollective) return;
    if (!mail_.outbox().HasUnreadBeyond(kMaxUnreadBytes)) return;
    world.AwaitMail(wait, [&] { return mail_.outbox().IsRead(transfer.sent); });
    return;
  }
  while (transfer.num_taken < transfer.num_letters) {
    if (TakeNext(transfer)) continue;
    world.AwaitMail(wait, [&] { return Next(transfer).has_value(); });
  }
}

const std::byte* MailTransfers::AwaitToRead(GlooWorld::Wait& wait, size_t index) {
  const Transfer& transfer = transfers_.at(index);
  std::optional<MailInbox::Mail> mail;
  group_.world().AwaitMail(wait, [&] { return (mail = Next(transfer)).has_value(); });
  return mail->bytes;
}

void MailTransfers::Release(size_t index) {
  Transfer& transfer = transfers_.at(index);
  mail_.From(transfer.sender).Release(transfer.slot, transfer.first_letter);
  ++transfer.num_taken;
}

}  // namespace tessera::engine
