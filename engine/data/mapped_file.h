// A file mapped into memory for reading.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace tessera::engine {

static_assert(std::endian::native == std::endian::little, "token files are little endian");

// Reads a T at any address, aligned or not.
template <typename T>
T LoadAt(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

// Owns the mapping. Pages are read when touched, so a file larger than memory is fine; a file that
// another process cuts short while it is mapped is not.
class MappedFile {
 public:
  // Throws base::ConfigError for a file that is missing, unreadable or not a regular file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::byte* data() const { return bytes_.data(); }
  int64_t size_bytes() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace tessera::engine
