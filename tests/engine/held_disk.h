// A disk that does not get done: syncs of some files of this process wait until a test lets them
// go.
#pragma once

#include <string>

namespace tessera::engine::test {

// One at a time.
class HeldDisk {
 public:
  // Holds every sync of a file whose path contains `part`.
  explicit HeldDisk(const std::string& part);
  ~HeldDisk();  // releases
  HeldDisk(const HeldDisk&) = delete;
  HeldDisk& operator=(const HeldDisk&) = delete;

  // Lets the syncs held go, and all after them.
  void Release();
};

}  // namespace tessera::engine::test
