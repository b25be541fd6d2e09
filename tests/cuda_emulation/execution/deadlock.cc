#include "tests/cuda_emulation/execution/deadlock.h"

#include <algorithm>

namespace tessera::cuda_emulation {

std::string IndexName(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

std::string PlaceName(const char* what, const Place& place) {
  const std::string file = place.file_name();
  return std::string(what) + " " + file.substr(file.rfind('/') + 1) + ":" +
         std::to_string(place.line());
}

void DeadlockReport::AddWaiting(uint3 thread, const char* what, const Place& place) {
  const std::string where = PlaceName(what, place);
  const auto group = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const Group& known) { return known.where == where; });
  if (group != groups_.end()) {
    ++group->num_threads;
  } else {
    groups_.push_back({.where = where, .first = thread, .num_threads = 1});
  }
}

std::string DeadlockReport::ToString() const {
  std::string text = "deadlock:";
  for (const Group& group : groups_) {
    text += " " + std::to_string(group.num_threads) + " threads wait at " + group.where +
            " (the first is " + IndexName(group.first) + "),";
  }
  return text + " " + std::to_string(num_returned_) + " threads have returned";
}

}  // namespace tessera::cuda_emulation
