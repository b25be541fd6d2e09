#include "engine/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    throw base::ConfigError(path, "", std::strerror(errno), "a readable file");
  }
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) {
    throw base::SystemError(base::Concat("fstat of ", path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    throw base::ConfigError(path, "", S_ISDIR(status.st_mode) ? "a directory" : "a special file",
                            "a regular file");
  }
  if (status.st_size == 0) return;  // nothing to map
  const auto size = static_cast<size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    throw base::SystemError(base::Concat("mmap of ", path, ": ", std::strerror(errno)));
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

}  // namespace tessera::engine
