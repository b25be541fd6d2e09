// The checkpoints of a run: written at once or behind the training, old ones removed, failures of
// the disk told.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/checkpoint_info.h"
#include "engine/checkpoint/checkpoint_save.h"
#include "engine/comm/communicator.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

// What a failed save does to the run.
enum class OnSaveError : uint8_t { kStop, kContinue };
std::string_view ToString(OnSaveError choice);  // "stop", "continue"
// Throws base::ConfigError.
OnSaveError OnSaveErrorFromString(std::string_view text);

struct SaveOptions {
  std::string folder;  // exists
  bool is_asynchronous = false;
  int64_t keep_last = 0;  // 0: all
  OnSaveError on_error = OnSaveError::kStop;
  double patience_s = 600;  // with a disk that others wait for
};

// One rank's end. All functions but last_saved_step are collective and called from the rank's own
// thread; a background thread of each rank writes its file and never communicates. Save copies what
// the rank saves (see RankPieces::Detach) and returns; Poll, after each step, brings the save on.
//
// A failure of the disk leaves earlier checkpoints as they are. It comes out of the call in which
// the ranks learn of it, on every rank: as base::SystemError, or as a warning where the run is to
// go on. A disk that is slow is told of while the ranks wait for it. One that takes longer than the
// patience with it is a failure whatever the run is to do: what is being written cannot be given
// up, so that its rank does not end before the disk does.
class CheckpointSaver {
 public:
  // Called on rank 0 alone.
  struct Callbacks {
    std::function<void(const std::string& path)> on_saved;
    std::function<void(const std::string& message)> on_warning;
  };
  // `damaged`: checkpoints in the folder known to be useless, which do not count as kept.
  CheckpointSaver(SaveOptions options, std::vector<std::string> damaged, Communicator& world,
                  Callbacks callbacks);

  // Waits for the save before.
  void Save(const TrainState& state, const CheckpointInfo& info);
  // Neither waits for the disk nor fails because of it when nothing is being saved.
  void Poll();
  void Wait();
  // As Save and Wait; a failure is thrown whatever on_error says.
  void SaveLast(const TrainState& state, const CheckpointInfo& info);

  // Of the last save that succeeded; -1: none.
  int64_t last_saved_step() const { return last_saved_step_; }

 private:
  // What all ranks do together, the first and the last on rank 0 alone.
  enum class Phase : uint8_t { kBegin, kWrite, kCommit };
  struct Pending {
    std::unique_ptr<CheckpointSave> save;
    Phase phase = Phase::kBegin;
    bool is_stuck = false;        // some rank still writes, and nobody waits for it any more
    std::string removal_problem;  // of rank 0
    std::future<void> work;       // invalid: none; the last member, as it uses the others
  };

  void Start(const TrainState& state, const CheckpointInfo& info);
  void StartPhase(Phase phase);
  void AwaitPhase();
  // Ends the phase, which all ranks are through with, and begins the next.
  void FinishPhase();
  struct Waiting {
    int for_rank = -1;    // the last of those at work; -1: none is
    double waited_s = 0;  // of the rank that has waited longest
  };
  // Collective: every rank has the same answer, within `limit_s` of its own work.
  Waiting WaitFor(double limit_s, double waited_s);
  void Work(Pending& pending) const;
  void Commit(Pending& pending) const;
  // Runs a part of a save; a failure ends the save.
  void Guard(const std::function<void()>& part);
  bool is_first() const { return world_.rank() == 0; }

  SaveOptions options_;
  const std::vector<std::string> damaged_;
  Communicator& world_;
  const Callbacks callbacks_;
  int64_t last_saved_step_ = -1;
  std::optional<Pending> pending_;
};

}  // namespace tessera::engine
