#include "engine/comm/mail_outbox.h"

#include <algorithm>
#include <bit>
#include <new>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "cost_model/base/math.h"
#include "engine/comm/copy_bytes.h"

namespace tessera::engine {
namespace {

// A few: most are over when they are looked at, and one that is not must not hold up the others.
constexpr size_t kNumLooks = 8;

}  // namespace

MailOutbox::MailOutbox(SharedFile& file, int num_ranks) : file_(file) {
  TESSERA_CHECK(FirstLetterTo(num_ranks) <= SharedFile::kRegionBytes, num_ranks, " ranks");
  new (file_.At(kMailBell)) EventCount(EventCount::Scope::kProcesses);
  for (int reader = 0; reader < num_ranks; ++reader) {
    last_.push_back(new (file_.At(FirstLetterTo(reader))) MailLetter);
  }
  end_ = FirstLetterTo(num_ranks);
}

bool MailOutbox::InUse::IsOver() const {
  if (content != nullptr) return content->num_readers.load(std::memory_order_acquire) == 0;
  return letter->state.load(std::memory_order_acquire) == (MailLetter::kRead | MailLetter::kPassed);
}

int MailOutbox::SizeIndexOf(int64_t num_bytes) {
  const auto num_blocks = static_cast<uint64_t>(base::CeilDiv(num_bytes, kSmallestBlockBytes));
  return std::bit_width(num_blocks - 1);
}

void MailOutbox::Reclaim(int size_index, size_t num_looks) {
  Blocks& blocks = blocks_[static_cast<size_t>(size_index)];
  for (num_looks = std::min(num_looks, blocks.in_use.size()); num_looks > 0; --num_looks) {
    const InUse oldest = blocks.in_use.front();
    blocks.in_use.pop_front();
    if (oldest.IsOver()) {
      blocks.free.push_back(oldest.offset);
      if (oldest.content != nullptr) bytes_in_use_ -= kSmallestBlockBytes << size_index;
    } else {
      blocks.in_use.push_back(oldest);
    }
  }
}

int64_t MailOutbox::Take(int size_index) {
  Reclaim(size_index, kNumLooks);
  Blocks& blocks = blocks_[static_cast<size_t>(size_index)];
  if (!blocks.free.empty()) {
    const int64_t offset = blocks.free.back();
    blocks.free.pop_back();
    return offset;
  }
  const int64_t num_bytes = kSmallestBlockBytes << size_index;
  // A block lies in one region.
  const int64_t left = SharedFile::kRegionBytes - end_ % SharedFile::kRegionBytes;
  if (left < num_bytes) end_ += left;
  if (end_ + num_bytes > SharedFile::kMaxBytes) {
    throw base::SystemError("the shared memory of a rank is full of what its peers have not read");
  }
  const int64_t offset = end_;
  end_ += num_bytes;
  return offset;
}

MailOutbox::Sent MailOutbox::Send(const void* data, int64_t num_bytes, std::span<const int> readers,
                                  const MailSlot& slot) {
  TESSERA_CHECK(num_bytes <= kMaxMailBytes, num_bytes, " bytes");
  constexpr auto kContentBytes = static_cast<int64_t>(sizeof(MailContent));
  const int size_index = SizeIndexOf(kContentBytes + num_bytes);
  const std::lock_guard lock(mutex_);
  const int64_t offset = Take(size_index);
  auto* const content = new (file_.At(offset)) MailContent;
  content->num_readers.store(static_cast<int32_t>(readers.size()), std::memory_order_relaxed);
  content->serial = ++serial_;
  CopyBytes(data, content->bytes(), num_bytes);
  blocks_[static_cast<size_t>(size_index)].in_use.push_back({content, nullptr, offset});
  bytes_in_use_ += kSmallestBlockBytes << size_index;
  constexpr int kLetterIndex = 0;
  static_assert(sizeof(MailLetter) == kSmallestBlockBytes);
  for (const int reader : readers) {
    const int64_t letter_offset = Take(kLetterIndex);
    auto* const letter = new (file_.At(letter_offset)) MailLetter;
    letter->slot = slot;
    letter->content = offset;
    letter->num_bytes = num_bytes;
    blocks_[kLetterIndex].in_use.push_back({nullptr, letter, letter_offset});
    MailLetter*& last = last_[static_cast<size_t>(reader)];
    last->next.store(letter_offset, std::memory_order_release);
    last = letter;
  }
  return {content, content->serial};
}

bool MailOutbox::IsRead(const Sent& sent) {
  const std::lock_guard lock(mutex_);
  return sent.content->serial != sent.serial ||
         sent.content->num_readers.load(std::memory_order_acquire) == 0;
}

bool MailOutbox::HasUnreadBeyond(int64_t num_bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes_in_use_ <= num_bytes) return false;
  for (int index = 0; index < kNumBlockSizes; ++index) {
    Reclaim(index, blocks_[static_cast<size_t>(index)].in_use.size());
  }
  return bytes_in_use_ > num_bytes;
}

}  // namespace tessera::engine
