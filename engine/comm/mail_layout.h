// How mail lies in the shared memory of the rank that sends it. Only its sender adds and reuses
// memory; readers say what they are done with. A rank that dies in the middle leaves a chain whose
// every link is whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/comm/event_count.h"
#include "engine/comm/shared_file.h"

namespace tessera::engine {

// What a letter is found by; of one sender, in the order of sending.
struct MailSlot {
  uint64_t group = 0;
  uint64_t slot = 0;  // see SlotOf
  bool operator==(const MailSlot&) const = default;
};

// Bytes for one or more readers.
struct alignas(64) MailContent {
  std::atomic<int32_t> num_readers{0};  // that have not read them yet
  uint64_t serial = 0;                  // of the sending: memory is used again
  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

// A link of the chain from one sender to one reader.
struct alignas(64) MailLetter {
  // The reader is done with the content; it has gone on to the next letter.
  static constexpr uint32_t kRead = 1;
  static constexpr uint32_t kPassed = 2;

  std::atomic<int64_t> next{0};  // where the next one lies; 0: there is none yet
  std::atomic<uint32_t> state{0};
  MailSlot slot;
  int64_t content = 0;  // where it lies
  int64_t num_bytes = 0;
};

// Where a rank's file has what.
inline constexpr int64_t kMailBell = SharedFile::kFirstByte;  // an EventCount, for its threads
// The first letters, which are empty, of the chains to each rank of the world.
inline constexpr int64_t kFirstLetters = kMailBell + int64_t{sizeof(EventCount)};
inline int64_t FirstLetterTo(int reader) {
  return kFirstLetters + reader * int64_t{sizeof(MailLetter)};
}
static_assert(kFirstLetters % alignof(MailLetter) == 0 && kMailBell % alignof(EventCount) == 0);

}  // namespace tessera::engine
