// What all ranks learn of each other at the end of a step.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/comm/communicator.h"
#include "engine/train/straggler.h"

namespace tessera::engine {

// Of one rank, or summed over all.
struct StepSums {
  double loss = 0;
  double balance_loss = 0;
  double router_z_loss = 0;
  double squared_norm = 0;
  int64_t num_targets = 0;  // tokens that count in the loss
  int64_t num_stop_requests = 0;
  RankCompute last_compute;  // of the step before; not summed
};

struct StepMeeting {
  StepSums sums;
  int first_bad_loss_rank = -1;        // of those whose own loss is not finite; -1: none
  std::optional<Straggler> straggler;  // of the step before
};

// Collective.
StepMeeting MeetAtStepEnd(Communicator& world, const StepSums& mine);

}  // namespace tessera::engine
