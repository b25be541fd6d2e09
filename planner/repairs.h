// When nothing fits: the smallest changes to the request after which something does.
#pragma once

#include <string>
#include <vector>

#include "planner/search.h"

namespace tessera::planner {

struct Repair {
  std::string change;  // "full recomputation"
  int num_devices = 0;
  RankedLayout layout;  // the fastest that the change allows
};

// Fixes every axis of the request as `parallel` has it.
void PinLayout(const spec::ParallelSpec& parallel, Request& request);

inline constexpr size_t kNumRepairs = 3;

// Tries one change at a time, each priced by a search: what is pinned set free or set to the choice
// that saves memory, flash attention, 16-bit numbers, a shorter sequence, a batch that divides,
// more devices; if none of them helps, all axes set free. Of the changes that help, those with the
// fewest device-seconds a step, kNumRepairs at most.
std::vector<Repair> FindRepairs(const Request& request);

}  // namespace tessera::planner
