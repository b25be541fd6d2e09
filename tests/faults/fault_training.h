// A training whose checkpoints a fault strikes.
#pragma once

#include <string>

#include "engine/comm/launch_environment.h"
#include "tests/faults/fault.h"

namespace tessera::testing {

inline constexpr int kFaultStep = 4;  // the step or round, from 1, in which a fault strikes

// One rank's part in a run with a fault.
struct FaultRun {
  std::string operation;
  Fault fault = Fault::kNone;
  bool is_victim = false;       // whether it strikes this rank
  bool holds_up = false;        // whether this rank is late where it strikes within an operation
  bool strikes_within = false;  // rather than before the operation
  double timeout_s = 0;
  double init_timeout_s = 0;
  std::string folder;
  engine::ProcessRank process;
  engine::MeetingPlace place;
};

FaultPlace PlaceOf(const FaultRun& run, std::vector<int> spared);

// Trains a small model over FOLDER/tokens.u8 with a checkpoint in FOLDER/save after every step,
// from the newest that is there. Rank 0 adds "STEP LOSS" to FOLDER/losses.txt. The fault strikes
// when the checkpoint of kFaultStep is due, or when the first of its files are there.
void RunTrainingWithFault(const FaultRun& run);

}  // namespace tessera::testing
