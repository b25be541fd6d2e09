// The layout of Megatron-LM's .idx file, for its reader and its writer. All numbers little endian:
//   byte  0  9 bytes  magic "MMIDIDX\0\0"
//   byte  9  u64      version, 1
//   byte 17  u8       code of the token type
//   byte 18  u64      number of sequences S
//   byte 26  u64      number of document indices D, one more than there are documents
//   byte 34  i32 [S]  tokens of each sequence
//            i64 [S]  byte offset of each sequence in the .bin file
//            i64 [D]  first sequence of each document, then S
//            i8  [S]  modes, in multimodal files only
// Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/data/token_store.h"

namespace tessera::engine {

inline constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
inline constexpr uint64_t kIndexVersion = 1;
inline constexpr int64_t kIndexVersionOffset = 9;
inline constexpr int64_t kIndexTypeOffset = 17;
inline constexpr int64_t kIndexSequencesOffset = 18;
inline constexpr int64_t kIndexDocumentsOffset = 26;
inline constexpr int64_t kIndexHeaderBytes = 34;

// The type of a code of the .idx file; none for a code that is unknown or not of integers.
std::optional<TokenType> TokenTypeOfIndexCode(uint8_t code);
// REQUIRES: a type that the format has (not u32).
uint8_t IndexCodeOf(TokenType type);

struct IndexedPaths {
  std::string bin;
  std::string idx;
};

// The pair of a prefix, or of either file of the pair. A prefix whose own name ends in .bin or .idx
// is taken as a prefix where its pair exists.
IndexedPaths IndexedPathsOf(const std::string& path);

}  // namespace tessera::engine
