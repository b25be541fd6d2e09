// What a rank sends through shared memory.
#pragma once

#include <array>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "engine/comm/mail_layout.h"

namespace tessera::engine {

// With what goes before it 128 KiB, so that what is sent, what is read and what is made of it lie
// in a second-level cache together.
inline constexpr int64_t kMaxMailBytes = 128 * 1024 - int64_t{sizeof(MailContent)};

// Safe to call from every thread of the rank.
class MailOutbox {
 public:
  // A content under way.
  struct Sent {
    MailContent* content = nullptr;
    uint64_t serial = 0;
  };

  // In `file`, this rank's, for readers in a world of `num_ranks`.
  MailOutbox(SharedFile& file, int num_ranks);

  // Copies the bytes, at most kMaxMailBytes, into shared memory and sends them to each of
  // `readers`, ranks of the world. Throws base::SystemError where there is no memory.
  Sent Send(const void* data, int64_t num_bytes, std::span<const int> readers,
            const MailSlot& slot);
  bool IsRead(const Sent& sent);
  // Of all that was sent and is not read yet.
  bool HasUnreadBeyond(int64_t num_bytes);

 private:
  // Blocks of 64 bytes times a power of two.
  static constexpr int64_t kSmallestBlockBytes = 64;
  static constexpr int kNumBlockSizes = 12;
  struct InUse {
    MailContent* content = nullptr;  // of a letter null
    MailLetter* letter = nullptr;
    int64_t offset = 0;

    bool IsOver() const;
  };
  struct Blocks {
    std::deque<InUse> in_use;   // about the oldest first
    std::vector<int64_t> free;  // last in, first out: what the caches still have
  };

  static int SizeIndexOf(int64_t num_bytes);
  int64_t Take(int size_index);
  // Looks whether the oldest of the blocks, so many, are over.
  void Reclaim(int size_index, size_t num_looks);

  SharedFile& file_;
  std::mutex mutex_;  // of what follows, and of the file
  int64_t end_ = 0;   // of what was ever used
  std::array<Blocks, kNumBlockSizes> blocks_;
  std::vector<MailLetter*> last_;  // by reader
  uint64_t serial_ = 0;
  int64_t bytes_in_use_ = 0;  // of contents
};

}  // namespace tessera::engine
