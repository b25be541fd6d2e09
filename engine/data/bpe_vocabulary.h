// The tokens and merges of a byte-level BPE tokenizer, for look-up.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/data/bpe_description.h"

namespace tessera::engine {

class BpeVocabulary {
 public:
  // Throws base::ConfigError for a byte without a token, a merge of or into what is no token, or an
  // id that two tokens share.
  explicit BpeVocabulary(const BpeDescription& description);

  // One more than the highest id.
  int64_t size() const { return size_; }
  int32_t IdOfByte(char byte) const { return id_of_byte_[static_cast<uint8_t>(byte)]; }
  std::optional<int32_t> Find(std::string_view bytes) const;
  // Null where no token has the id.
  const std::string* BytesOf(int32_t id) const;

  struct Merge {
    int32_t rank = 0;  // lower goes first
    int32_t id = 0;    // of the merged token
  };
  // Null where the pair is never merged.
  const Merge* FindMerge(int32_t left, int32_t right) const {
    const auto found = merges_.find(PairKey(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

 private:
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  static uint64_t PairKey(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(left) << 32) | static_cast<uint32_t>(right);
  }
  void AddToken(const BpeToken& token, const std::string& path);
  void AddMerges(const BpeDescription& description);

  std::array<int32_t, 256> id_of_byte_{};
  // By id: ids may have gaps, and those of a broken file take no memory.
  std::unordered_map<int32_t, std::string> bytes_;
  int64_t size_ = 0;
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> ids_;
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace tessera::engine
