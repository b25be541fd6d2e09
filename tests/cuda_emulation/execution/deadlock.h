// Words for messages about running blocks.
#pragma once

#include <string>
#include <vector>

#include "tests/cuda_emulation/device/meeting.h"

namespace tessera::cuda_emulation {

// "(1, 0, 0)".
std::string IndexName(uint3 index);

// "__syncthreads norm.cu:34".
std::string PlaceName(const char* what, const Place& place);

// Who waits where in a block in which nobody can run.
class DeadlockReport {
 public:
  void AddWaiting(uint3 thread, const char* what, const Place& place);
  void AddReturned() { ++num_returned_; }
  std::string ToString() const;

 private:
  struct Group {
    std::string where;
    uint3 first;
    int num_threads;
  };
  std::vector<Group> groups_;
  int num_returned_ = 0;
};

}  // namespace tessera::cuda_emulation
