// The fewest devices with which a run ends in time.
#pragma once

#include <vector>

#include "planner/what_if/run_terms.h"
#include "planner/what_if/sweep.h"

namespace tessera::planner {

// More devices than any one training has used.
inline constexpr int kMostDevices = 131'072;

// A point that was searched, and what was found there.
struct SearchedPoint {
  SweepPoint asked;
  PointResult found;
};

// For each of `bases` (its number of devices is ignored) whatever was searched on the way to the
// fewest whole nodes, or the fewest devices of one node, that train terms.tokens within
// terms.within_s: by doubling and halving up to the first number that suffices, then, between it
// and its half, sixteen numbers from below and bisection below the first of those that suffices. So
// with one node fewer the run takes longer, or no layout fits. Bases whose cluster or batch ends
// first, or gains nothing by more devices, have no point that suffices. All bases are searched side
// by side. REQUIRES: terms have tokens and within_s.
std::vector<SearchedPoint> SearchDevices(const std::vector<SweepPoint>& bases,
                                         const RunTerms& terms, const SweepOptions& options);

}  // namespace tessera::planner
