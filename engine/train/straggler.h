// A rank that takes longer than others for the same work: they wait for it.
#pragma once

#include <optional>
#include <vector>

#include "cost_model/spec/rank_layout.h"
#include "cost_model/spec/step_warnings.h"

namespace tessera::engine {

struct RankCompute {
  int pipeline = 0;      // its stage
  double compute_s = 0;  // of a step: its passes without their communication
};

struct Straggler {
  int rank = 0;
  double compute_s = 0;
  // Of the other ranks of its pipeline stage, which have the same work.
  double median_s = 0;
  double ratio() const { return compute_s / median_s; }
};

// The rank that computes longest compared to the median of the other ranks of its stage; nothing
// where no stage has two ranks, or nothing was measured. Ranks of different stages are not
// compared: their work differs.
std::optional<Straggler> FindStraggler(const std::vector<RankCompute>& ranks);

// The same as a warning, where it passes the thresholds of spec/step_warnings.h. `coord` is the
// straggler's.
std::optional<spec::StepWarning> StragglerWarning(const Straggler& straggler,
                                                  const spec::RankCoord& coord, double step_time_s);

}  // namespace tessera::engine
