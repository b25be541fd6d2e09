#include "engine/data/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

OutputFile::OutputFile(const std::string& path)
    // Two processes that write the same target must not share a temporary file.
    : path_(path), temporary_path_(base::Concat(path, ".tmp.", ::getpid())) {
  file_.reset(std::fopen(temporary_path_.c_str(), "wb"));
  if (!file_) Fail("fopen");
}

OutputFile::~OutputFile() {
  file_.reset();
  if (!published_) ::unlink(temporary_path_.c_str());
}

void OutputFile::Fail(const char* call) const {
  throw base::SystemError(base::Concat(call, " of ", temporary_path_, ": ", std::strerror(errno)));
}

void OutputFile::Write(std::span<const std::byte> bytes) {
  TESSERA_CHECK(file_ != nullptr, path_, " is finished");
  if (bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) Fail("write");
  size_bytes_ += static_cast<int64_t>(bytes.size());
}

void OutputFile::Finish() {
  TESSERA_CHECK(file_ != nullptr, path_, " is finished");
  if (std::fflush(file_.get()) != 0) Fail("write");
  if (::fsync(::fileno(file_.get())) != 0) Fail("fsync");
  if (std::fclose(file_.release()) != 0) Fail("close");
}

void OutputFile::Publish() {
  TESSERA_CHECK(file_ == nullptr && !published_, path_, " is published before it is finished");
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) Fail("rename");
  published_ = true;
}

const std::string& InExistingFolder(const std::string& path) {
  if (!std::filesystem::is_directory(FolderOf(path))) {
    throw base::ConfigError(path, "", base::Concat("no folder ", FolderOf(path)),
                            "a file name in an existing folder");
  }
  return path;
}

void SyncFolderOf(const std::string& path) {
  const std::string folder = FolderOf(path);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw base::SystemError(base::Concat("open of ", folder, ": ", std::strerror(errno)));
  const int status = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  // Some file systems have no fsync for folders (EINVAL); the files themselves are synced.
  if (status != 0 && error != EINVAL) {
    throw base::SystemError(base::Concat("fsync of ", folder, ": ", std::strerror(error)));
  }
}

}  // namespace tessera::engine
