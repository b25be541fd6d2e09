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
};

// One rank's end. All functions but last_saved_step are collective and called from the rank's own
// thread; a background thread of each rank writes its file and never communicates. Save copies what
// the rank saves (see RankPieces::Detach) and returns; Poll, after each step, brings the save on.
//
// A failure of the disk leaves earlier checkpoints as they are. It comes out of the call in which
// the ranks learn of it, on every rank: as base::SystemError, or as a warning where the run is to
// go on.
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
  // A save under way: all ranks write, then rank 0 commits.
  struct Pending {
    std::unique_ptr<CheckpointSave> save;
    bool is_committing = false;
    std::string removal_problem;  // of rank 0
    std::future<void> work;       // invalid: none; the last member, as it uses the others
  };

  void Start(const TrainState& state, const CheckpointInfo& info);
  void Launch(std::function<void()> work);
  void StartCommit();
  // Ends the phase under way, waiting for it, and begins the next.
  void FinishPhase();
  bool IsPhaseDoneOnAllRanks();
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
