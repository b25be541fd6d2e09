// A file that appears under its name only when it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera::engine {

// Writes to a temporary file beside the target. Finish() makes the bytes durable, Publish() gives
// them their name; destroyed before that, the temporary file goes away and the target stays as it
// was. Every failed system call throws base::SystemError naming the call and the path.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size_bytes() const { return size_bytes_; }

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text.data(), text.size()))); }
  void Finish();
  // REQUIRES: Finish() was called.
  void Publish();
  // Both, for a file that stands alone.
  void Commit() {
    Finish();
    Publish();
  }

 private:
  [[noreturn]] void Fail(const char* call) const;

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string path_;
  std::string temporary_path_;
  std::unique_ptr<std::FILE, Close> file_;
  int64_t size_bytes_ = 0;
  bool published_ = false;
};

// The path of a file to be written, as a user gave it. Throws base::ConfigError where its folder
// doesn't exist.
const std::string& InExistingFolder(const std::string& path);

// Makes new names in the folder of `path` durable.
void SyncFolderOf(const std::string& path);

}  // namespace tessera::engine
