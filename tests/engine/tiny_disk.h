// A disk of its own that is soon full.
#pragma once

#include <sys/mount.h>

#include <filesystem>
#include <string>

#include "tests/engine/data_test_files.h"

namespace tessera::engine::test {

// A file system in memory, where the test may mount one: as root, with the rights for it.
class TinyDisk {
 public:
  explicit TinyDisk(const std::string& size)
      : is_mounted_(mount("tmpfs", path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0) {}
  ~TinyDisk() {
    if (is_mounted_) umount2(path().c_str(), MNT_DETACH);
  }
  TinyDisk(const TinyDisk&) = delete;
  TinyDisk& operator=(const TinyDisk&) = delete;

  bool is_mounted() const { return is_mounted_; }
  std::string path() const { return folder_.Path(""); }
  std::string Path(const std::string& name) const { return folder_.Path(name); }
  // Leaves so much of it.
  void FillUpTo(size_t left_bytes) const {
    const size_t free_bytes = std::filesystem::space(path()).available;
    folder_.Write("filler", std::string(free_bytes - left_bytes, 'x'));
  }
  bool MakeReadOnly() const {
    return mount("tmpfs", path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  TestFolder folder_;
  bool is_mounted_;
};

}  // namespace tessera::engine::test
