// One save of a checkpoint, as one rank does it: steps that do not communicate.
#pragma once

#include <string>

#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/checkpoint_info.h"
#include "engine/checkpoint/rank_pieces.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

// Begin, WriteOwnParts and Commit in this order, each done by all of its ranks before the next
// begins on any; they may run on any thread. The disk's failures are base::SystemError naming call
// and path.
class CheckpointSave {
 public:
  struct Place {
    std::string save_folder;
    std::string suffix;  // TemporarySuffix() of rank 0, on every rank
    int rank = 0;
    int num_ranks = 1;
  };
  // The state's memory is read until WriteOwnParts is done, or Detach.
  CheckpointSave(const TrainState& state, const CheckpointInfo& info, const Place& place);

  // By every rank, before any step: the state may change from then on.
  void Detach() { pieces_.Detach(); }

  void Begin() const;          // by rank 0
  void WriteOwnParts() const;  // by every rank
  void Commit() const;         // by rank 0: from then on the checkpoint counts
  // By rank 0, when a step has failed on some rank and all have ended theirs.
  void Abandon() const noexcept { staging_.Abandon(); }

  int64_t step() const { return head_.progress.step; }
  const std::string& folder() const { return staging_.final_folder(); }

 private:
  const Place place_;
  const CheckpointStaging staging_;
  const spec::ModelSpec model_;
  Manifest head_;  // without files and pieces
  RankPieces pieces_;
};

}  // namespace tessera::engine
