// The header of a safetensors file: eight bytes of little-endian length, then JSON that names each
// tensor's type, shape and byte range in the data that follows. Tensors fill the data without gaps
// or overlaps.
// Format: https://huggingface.co/docs/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::engine {

inline constexpr int64_t kHeaderLengthBytes = 8;  // of the length before the JSON

enum class SafetensorsType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
};

std::string_view ToString(SafetensorsType type);  // as in the file: "BF16"
std::optional<SafetensorsType> SafetensorsTypeFromString(std::string_view text);
int64_t SizeBytes(SafetensorsType type);

struct SafetensorsTensor {
  std::string name;
  SafetensorsType type = SafetensorsType::kF32;
  std::vector<int64_t> shape;  // row-major
  int64_t begin_bytes = 0;     // into the data behind the header
  int64_t end_bytes = 0;
  int64_t NumElements() const { return (end_bytes - begin_bytes) / SizeBytes(type); }
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsTensor> tensors;  // in the order of their data
  int64_t data_begin_bytes = 0;            // into the file
};

// Longest header that a reader takes. [bytes]
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// `file` is the whole file; `path` goes into messages. Throws base::ConfigError, naming tensor or
// offset, unless every number in the header agrees with every other and with the file's size.
SafetensorsHeader ParseSafetensorsHeader(std::span<const std::byte> file, const std::string& path);

// What is parsed from the JSON alone, offsets not yet checked. `text` starts at byte 8 of the file.
SafetensorsHeader ParseSafetensorsJson(std::string_view text, const std::string& path);

// Length and JSON for tensors that follow in this order (their byte ranges are not read), padded
// with spaces so that the data starts at a multiple of eight.
std::string BuildSafetensorsHeader(const std::vector<SafetensorsTensor>& tensors,
                                   const std::map<std::string, std::string>& metadata);

// A name out of a file for a one-line message: control characters escaped, long ones cut.
std::string PrintableName(std::string_view name);
// "[2, 3]"
std::string ShapeText(const std::vector<int64_t>& shape);
// Product of the sizes; nullopt for a negative size or one beyond int64.
std::optional<int64_t> CheckedNumElements(const std::vector<int64_t>& shape);

}  // namespace tessera::engine
