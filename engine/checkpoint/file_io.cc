#include "engine/checkpoint/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void FailCall(const char* call, const std::string& path, int error) {
  throw base::SystemError(
      base::Concat(call, " ", path, ": ", std::generic_category().message(error)));
}

void CheckCall(const char* call, const std::string& path, const std::error_code& error) {
  if (error) throw base::SystemError(base::Concat(call, " ", path, ": ", error.message()));
}

}  // namespace

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

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

void RequireFolder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) FailCall("open", path, errno);
  close(folder);
}

void MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0777) != 0) FailCall("mkdir", path, errno);
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
  if (error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    CheckCall("readdir", path, error);
  }
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
  return base::Concat(kTemporaryMark, getpid(), "-", now_ns);
}

}  // namespace tessera::engine
