#include "engine/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;

struct TypeEntry {
  std::string_view text;
  int64_t size_bytes;
};

// In the order of SafetensorsType.
constexpr std::array<TypeEntry, 15> kTypes = {{{"BOOL", 1},
                                               {"U8", 1},
                                               {"I8", 1},
                                               {"F8_E5M2", 1},
                                               {"F8_E4M3", 1},
                                               {"I16", 2},
                                               {"U16", 2},
                                               {"F16", 2},
                                               {"BF16", 2},
                                               {"I32", 4},
                                               {"U32", 4},
                                               {"F32", 4},
                                               {"I64", 8},
                                               {"U64", 8},
                                               {"F64", 8}}};

// Length of the JSON, checked against the file and the format's limit.
int64_t HeaderBytes(std::span<const std::byte> file, const std::string& path) {
  const auto file_bytes = static_cast<int64_t>(file.size());
  if (file_bytes < kHeaderLengthBytes) {
    throw ConfigError(path, "offset 0", Concat("a file of ", file_bytes, " bytes"),
                      "the eight bytes of a safetensors header length");
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), kHeaderLengthBytes);
  if (header_bytes > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    throw ConfigError(path, "offset 0", Concat("header length ", header_bytes),
                      Concat("at most ", kMaxSafetensorsHeaderBytes, " (a safetensors file)"));
  }
  if (static_cast<int64_t>(header_bytes) > file_bytes - kHeaderLengthBytes) {
    throw ConfigError(path, "offset 0",
                      Concat("a header of ", header_bytes, " bytes in a file of ", file_bytes),
                      "a header inside the file (is it truncated?)");
  }
  if (header_bytes == 0 || file[kHeaderLengthBytes] != std::byte{'{'}) {
    throw ConfigError(path, Concat("offset ", kHeaderLengthBytes), "no '{'", "the JSON header");
  }
  return static_cast<int64_t>(header_bytes);
}

void CheckTensor(const SafetensorsTensor& tensor, int64_t data_bytes, const std::string& path) {
  const auto key = [&] { return Concat("tensor '", PrintableName(tensor.name), "'"); };
  const std::string range =
      Concat("data_offsets [", tensor.begin_bytes, ", ", tensor.end_bytes, "]");
  if (tensor.begin_bytes > tensor.end_bytes || tensor.end_bytes > data_bytes) {
    throw ConfigError(
        path, key(), range,
        Concat("a range inside the ", data_bytes, " bytes of data (is the file truncated?)"));
  }
  const std::optional<int64_t> elements = CheckedNumElements(tensor.shape);
  int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, SizeBytes(tensor.type), &bytes) ||
      bytes != tensor.end_bytes - tensor.begin_bytes) {
    throw ConfigError(
        path, key(), Concat(range, " of ", tensor.end_bytes - tensor.begin_bytes, " bytes"),
        Concat("the bytes of shape ", ShapeText(tensor.shape), " in ", ToString(tensor.type)));
  }
}

// REQUIRES: tensors are sorted by their data.
void CheckTiling(const SafetensorsHeader& header, int64_t data_bytes, const std::string& path) {
  int64_t end = 0;
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (tensor.begin_bytes != end) {
      throw ConfigError(path, Concat("tensor '", PrintableName(tensor.name), "'"),
                        Concat("data from offset ", tensor.begin_bytes),
                        Concat("data from offset ", end, ": tensors without gaps or overlaps"));
    }
    end = tensor.end_bytes;
  }
  if (end != data_bytes) {
    throw ConfigError(path, Concat("offset ", header.data_begin_bytes + end),
                      Concat(data_bytes - end, " bytes that belong to no tensor"),
                      "the end of the file");
  }
}

void CheckNames(const SafetensorsHeader& header, const std::string& path) {
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const SafetensorsTensor& tensor : header.tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw ConfigError(path, Concat("tensor '", PrintableName(*twice), "'"), "the name twice",
                      "each name once");
  }
}

}  // namespace

std::string_view ToString(SafetensorsType type) { return kTypes[static_cast<size_t>(type)].text; }

int64_t SizeBytes(SafetensorsType type) { return kTypes[static_cast<size_t>(type)].size_bytes; }

std::optional<SafetensorsType> SafetensorsTypeFromString(std::string_view text) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].text == text) return static_cast<SafetensorsType>(i);
  }
  return std::nullopt;
}

SafetensorsHeader ParseSafetensorsHeader(std::span<const std::byte> file, const std::string& path) {
  const int64_t header_bytes = HeaderBytes(file, path);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kHeaderLengthBytes,
                              static_cast<size_t>(header_bytes));
  SafetensorsHeader header = ParseSafetensorsJson(text, path);
  header.data_begin_bytes = kHeaderLengthBytes + header_bytes;
  const int64_t data_bytes = static_cast<int64_t>(file.size()) - header.data_begin_bytes;
  for (const SafetensorsTensor& tensor : header.tensors) CheckTensor(tensor, data_bytes, path);
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
              return std::pair(a.begin_bytes, a.end_bytes) < std::pair(b.begin_bytes, b.end_bytes);
            });
  CheckTiling(header, data_bytes, path);
  CheckNames(header, path);
  return header;
}

std::string PrintableName(std::string_view name) {
  constexpr size_t kMaxLength = 120;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : name.substr(0, kMaxLength)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      text += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xF]};
    } else {
      text += c;
    }
  }
  if (name.size() > kMaxLength) text += "...";
  return text;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

std::optional<int64_t> CheckedNumElements(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
  }
  return elements;
}

}  // namespace tessera::engine
