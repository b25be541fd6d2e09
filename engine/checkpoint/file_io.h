// Files as checkpoints need them: mapped reads, writes that are on the disk before they count, and
// errors that name the system call and the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::engine {

// A whole file mapped read-only. Throws base::ConfigError when there is no such regular file,
// base::SystemError when the system refuses.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A new file under a temporary name that takes its own name, synced to disk, at Commit. Destroyed
// before that, it leaves nothing. Every failure is a base::SystemError.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text.data(), text.size()))); }
  void Commit();
  int64_t size_bytes() const { return size_bytes_; }

 private:
  void WriteThrough(std::span<const std::byte> bytes);

  std::string path_;
  std::string temporary_path_;
  int file_ = -1;
  int64_t size_bytes_ = 0;
  std::vector<std::byte> buffer_;  // gathers small writes
};

// The whole file or nothing, synced.
void WriteWholeFile(const std::string& path, std::string_view text);
// Throws base::ConfigError when there is no such file.
std::string ReadWholeFile(const std::string& path);

bool PathExists(const std::string& path);
// With the folders above it, where missing.
void MakeFolders(const std::string& path);
// Names in the folder, sorted; empty when there is no such folder.
std::vector<std::string> ListFolder(const std::string& path);
// Makes the names in a folder durable.
void SyncFolder(const std::string& path);
void RenamePath(const std::string& from, const std::string& to);
// Succeeds when there is nothing to remove.
void RemoveTree(const std::string& path);
// For clean-up on the way out of a failure, which matters more than one here.
void TryRemoveTree(const std::string& path) noexcept;
// ".tmp-" and letters that no other process uses at the moment.
std::string TemporarySuffix();

}  // namespace tessera::engine
