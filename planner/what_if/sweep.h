// Many jobs, each with a full search for its best layout, on several cores.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/search.h"

namespace tessera::planner {

// A job whose best layout is searched for.
struct SweepPoint {
  Request request;
  std::string variant;  // how the cluster differs from its description; empty: it does not
};

// What the search of one point found.
struct PointResult {
  int id = 0;            // its place among the points
  bool is_done = false;  // false: the sweep was cancelled first
  std::optional<RankedLayout> best;
  std::string reason;  // in one sentence, where there is no best layout
  int64_t num_layouts = 0;
  int64_t num_priced = 0;
  int64_t num_pruned = 0;
};

struct SweepProgress {
  size_t num_done = 0;
  size_t num_points = 0;  // 0: not known beforehand
};

struct SweepOptions {
  int num_workers = 1;
  // Once stopped, no further point is begun; those at work are finished.
  std::stop_token stop;
  // Called after each point, by one worker at a time. May be empty.
  std::function<void(const SweepProgress&)> progress;
};

// The results in the order of the points, whatever the number of workers. A point that has no price
// at all (no peak for its precision, more devices than the cluster has) has a reason like one
// without a feasible layout.
std::vector<PointResult> RunSweep(const std::vector<SweepPoint>& points,
                                  const SweepOptions& options);

}  // namespace tessera::planner
