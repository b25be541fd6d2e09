// What all ranks learn of each other at the end of a step.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"

namespace tessera::engine {

// Of one rank, or summed over all.
struct StepSums {
  double loss = 0;
  double balance_loss = 0;
  double router_z_loss = 0;
  double squared_norm = 0;
  int64_t num_targets = 0;  // tokens that count in the loss
  int64_t num_stop_requests = 0;
  double last_compute_s = 0;  // of passes, communication apart, in the step before
};

// The rank that computes longest, and how many times the median rank's time that is: of an even
// number the lower of the two in the middle, so that a rank of two is held against the other. 0
// where nothing was measured.
struct Straggler {
  int rank = 0;
  double ratio = 0;
};
Straggler FindStraggler(std::vector<double> compute_s_by_rank);

struct StepMeeting {
  StepSums sums;
  int first_bad_loss_rank = -1;  // of those whose own loss is not finite; -1: none
  Straggler straggler;           // of the step before
};

// Collective.
StepMeeting MeetAtStepEnd(Communicator& world, const StepSums& mine);

}  // namespace tessera::engine
