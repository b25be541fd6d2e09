#include "engine/checkpoint/file_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = 1 << 20;

[[noreturn]] void FailCall(const char* call, const std::string& path, int error) {
  throw base::SystemError(
      base::Concat(call, " ", path, ": ", std::generic_category().message(error)));
}

void CheckCall(const char* call, const std::string& path, const std::error_code& error) {
  if (error) throw base::SystemError(base::Concat(call, " ", path, ": ", error.message()));
}

int OpenForReading(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file >= 0) return file;
  if (errno == ENOENT || errno == ENOTDIR) {
    throw base::ConfigError(path, "", "no such file", "a readable file");
  }
  FailCall("open", path, errno);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int file = OpenForReading(path);
  struct stat status = {};
  if (fstat(file, &status) != 0) {
    const int error = errno;
    close(file);
    FailCall("fstat", path, error);
  }
  if (!S_ISREG(status.st_mode)) {
    close(file);
    throw base::ConfigError(path, "", "no regular file", "a readable file");
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) {
    close(file);
    return;
  }
  void* const mapping = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (mapping == MAP_FAILED) FailCall("mmap", path, error);
  data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

OutputFile::OutputFile(const std::string& path)
    : path_(path), temporary_path_(path + TemporarySuffix()) {
  file_ = open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) FailCall("open", temporary_path_, errno);
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_path_.c_str());
}

void OutputFile::Write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    WriteThrough(buffer_);
    buffer_.clear();
  }
  if (bytes.size() > kBufferBytes) {
    WriteThrough(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  size_bytes_ += static_cast<int64_t>(bytes.size());
}

void OutputFile::WriteThrough(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) FailCall("write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::Commit() {
  WriteThrough(buffer_);
  buffer_.clear();
  if (fsync(file_) != 0) FailCall("fsync", path_, errno);
  // close reports errors that a network file system kept back until now.
  if (close(std::exchange(file_, -1)) != 0) {
    const int error = errno;
    unlink(temporary_path_.c_str());
    FailCall("close", path_, error);
  }
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_path_.c_str());
    FailCall("rename", path_, error);
  }
}

void WriteWholeFile(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.Write(text);
  file.Commit();
}

std::string ReadWholeFile(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

bool PathExists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

void MakeFolders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  CheckCall("mkdir", path, error);
}

std::vector<std::string> ListFolder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) CheckCall("readdir", path, error);
  std::sort(names.begin(), names.end());
  return names;
}

void SyncFolder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) FailCall("open", path, errno);
  const int result = fsync(folder);
  const int error = errno;
  close(folder);
  // EINVAL: a file system that has nothing to sync for a folder.
  if (result != 0 && error != EINVAL) FailCall("fsync", path, error);
}

void RenamePath(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) FailCall("rename", to, errno);
}

void RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  CheckCall("remove", path, error);
}

void TryRemoveTree(const std::string& path) noexcept {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

std::string TemporarySuffix() {
  const int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  return base::Concat(".tmp-", getpid(), "-", now_ns);
}

}  // namespace tessera::engine
