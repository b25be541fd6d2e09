#include "tests/engine/held_disk.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <system_error>

#include "cost_model/base/error.h"

namespace tessera::engine::test {
namespace {

struct Hold {
  std::mutex mutex;
  std::condition_variable released;
  std::string part;  // of the paths held; "" holds none
};

Hold& TheHold() {
  static Hold hold;
  return hold;
}

void WaitWhileHeld(int descriptor) {
  std::error_code ignored;
  const std::string path =
      std::filesystem::read_symlink(base::Concat("/proc/self/fd/", descriptor), ignored).string();
  Hold& hold = TheHold();
  std::unique_lock lock(hold.mutex);
  hold.released.wait(
      lock, [&] { return hold.part.empty() || path.find(hold.part) == std::string::npos; });
}

}  // namespace

HeldDisk::HeldDisk(const std::string& part) {
  const std::lock_guard lock(TheHold().mutex);
  TheHold().part = part;
}

HeldDisk::~HeldDisk() { Release(); }

void HeldDisk::Release() {
  {
    const std::lock_guard lock(TheHold().mutex);
    TheHold().part.clear();
  }
  TheHold().released.notify_all();
}

}  // namespace tessera::engine::test

// Stands before the C library's in a program that this file is linked into.
extern "C" int fsync(int descriptor) {
  tessera::engine::test::WaitWhileHeld(descriptor);
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}
