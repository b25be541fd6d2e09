#include "engine/data/indexed_dataset_format.h"

#include <array>
#include <filesystem>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

struct IndexCode {
  uint8_t code;
  TokenType type;
};

// Codes 6 (float64) and 7 (float32) hold no token ids.
constexpr std::array<IndexCode, 6> kIndexCodes = {{{1, TokenType::kUInt8},
                                                   {2, TokenType::kInt8},
                                                   {3, TokenType::kInt16},
                                                   {4, TokenType::kInt32},
                                                   {5, TokenType::kInt64},
                                                   {8, TokenType::kUInt16}}};

}  // namespace

std::optional<TokenType> TokenTypeOfIndexCode(uint8_t code) {
  for (const IndexCode& entry : kIndexCodes) {
    if (entry.code == code) return entry.type;
  }
  return std::nullopt;
}

uint8_t IndexCodeOf(TokenType type) {
  for (const IndexCode& entry : kIndexCodes) {
    if (entry.type == type) return entry.code;
  }
  base::FailCheck(__FILE__, __LINE__, "type in format", "an .idx file has no ", ToString(type));
}

IndexedPaths IndexedPathsOf(const std::string& path) {
  std::string prefix = path;
  const bool names_a_file = path.ends_with(".bin") || path.ends_with(".idx");
  if (names_a_file && !std::filesystem::exists(path + ".idx")) {
    prefix.resize(path.size() - std::string_view(".bin").size());
  }
  return {.bin = prefix + ".bin", .idx = prefix + ".idx"};
}

}  // namespace tessera::engine
