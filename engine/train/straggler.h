// A rank that takes longer than others for the same work: they wait for it.
#pragma once

#include <optional>
#include <vector>

#include "engine/train/train_job.h"

namespace tessera::engine {

struct SlowestRank {
  int rank = 0;
  double compute_s = 0;  // of a step: its passes without their communication
  // Of the other ranks of its pipeline stage, which have the same work.
  double median_s = 0;
  double ratio() const { return compute_s / median_s; }
};

// The rank that computes longest compared to the median of the other ranks of its stage; nothing
// where no stage has two ranks. Ranks of different stages are not compared: their work differs.
std::optional<SlowestRank> FindSlowestRank(const std::vector<RankReport>& ranks);

// The same as a warning, where it passes the thresholds of spec/step_warnings.h.
std::optional<spec::StepWarning> StragglerWarning(const std::vector<RankReport>& ranks,
                                                  double step_time_s);

}  // namespace tessera::engine
