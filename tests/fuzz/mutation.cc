#include "tests/fuzz/mutation.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tessera::fuzz {
namespace {

using Random = std::mt19937_64;

size_t Below(size_t end, Random& random) { return end == 0 ? 0 : random() % end; }

void FlipBit(std::string& bytes, Random& random) {
  char& byte = bytes[Below(bytes.size(), random)];
  byte = static_cast<char>(byte ^ (1 << random() % 8));
}

void EraseRange(std::string& bytes, Random& random) {
  bytes.erase(Below(bytes.size(), random), 1 + random() % 16);
}

void DoubleRange(std::string& bytes, Random& random) {
  const size_t begin = Below(bytes.size(), random);
  bytes.insert(begin, bytes.substr(begin, 1 + random() % 64));
}

void CutEnd(std::string& bytes, Random& random) { bytes.resize(Below(bytes.size(), random)); }

// The digits at or after a random place, by another number.
void ReplaceNumber(std::string& bytes, Random& random) {
  static constexpr const char* kNumbers[] = {"0",
                                             "-1",
                                             "1",
                                             "7",
                                             "2147483647",
                                             "2147483648",
                                             "4294967296",
                                             "9223372036854775807",
                                             "9223372036854775808",
                                             "1e308",
                                             "1e999",
                                             "-0.0",
                                             "0.5",
                                             "\"x\"",
                                             "null",
                                             "[]",
                                             "{}",
                                             "true"};
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto begin =
      std::find_if(bytes.begin() + static_cast<std::ptrdiff_t>(Below(bytes.size(), random)),
                   bytes.end(), is_digit);
  if (begin == bytes.end()) return;
  const auto end = std::find_if_not(begin, bytes.end(), is_digit);
  bytes.replace(begin, end, kNumbers[random() % std::size(kNumbers)]);
}

template <typename Integer>
void ReplaceInteger(std::string& bytes, Random& random) {
  static constexpr Integer kIntegers[] = {0,
                                          1,
                                          std::numeric_limits<Integer>::max(),
                                          std::numeric_limits<Integer>::min(),
                                          std::numeric_limits<Integer>::max() / 2 + 1,
                                          -1};
  if (bytes.size() < sizeof(Integer)) return;
  const Integer value = kIntegers[random() % std::size(kIntegers)];
  std::memcpy(bytes.data() + Below(bytes.size() - sizeof(Integer) + 1, random), &value,
              sizeof(Integer));
}

}  // namespace

std::string Mutate(std::string bytes, Random& random) {
  static constexpr void (*kChanges[])(std::string&, Random&) = {FlipBit,
                                                                EraseRange,
                                                                DoubleRange,
                                                                CutEnd,
                                                                ReplaceNumber,
                                                                ReplaceNumber,
                                                                ReplaceInteger<int32_t>,
                                                                ReplaceInteger<int64_t>};
  const size_t num_changes = 1 + random() % 4;
  for (size_t i = 0; i < num_changes && !bytes.empty(); ++i) {
    kChanges[random() % std::size(kChanges)](bytes, random);
  }
  return bytes;
}

}  // namespace tessera::fuzz
