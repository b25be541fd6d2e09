#include "cost_model/spec/file_write.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "cost_model/base/error.h"

namespace tessera::spec {
namespace {

[[noreturn]] void Fail(const char* call, const std::string& path) {
  throw base::SystemError(base::Concat(call, " ", path, ": ", std::strerror(errno)));
}

// A file that is gone at the end of the scope unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target)
      : path_(base::Concat(target, ".tmp.", ::getpid())),
        descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) Fail("open", path_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!renamed_) ::unlink(path_.c_str());
  }

  void Write(const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
      if (count < 0 && errno != EINTR) Fail("write", path_);
      if (count > 0) done += static_cast<std::size_t>(count);
    }
    if (::fsync(descriptor_) != 0) Fail("fsync", path_);
    const int closed = ::close(descriptor_);
    descriptor_ = -1;
    if (closed != 0) Fail("close", path_);
  }

  void RenameTo(const std::string& target) {
    if (std::rename(path_.c_str(), target.c_str()) != 0) Fail("rename to", target);
    renamed_ = true;
  }

 private:
  std::string path_;
  int descriptor_;
  bool renamed_ = false;
};

// Without it a power cut could lose the new name.
void SyncFolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) Fail("open", folder);
  const int synced = ::fsync(descriptor);
  ::close(descriptor);
  if (synced != 0 && errno != EINVAL) Fail("fsync", folder);  // EINVAL: not on this file system
}

}  // namespace

void WriteFileAtomically(const std::string& path, const std::string& text) {
  TemporaryFile file(path);
  file.Write(text);
  file.RenameTo(path);
  SyncFolderOf(path);
}

}  // namespace tessera::spec
