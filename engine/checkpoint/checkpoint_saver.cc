#include "engine/checkpoint/checkpoint_saver.h"

#include <chrono>
#include <utility>

#include "cost_model/base/error.h"
#include "engine/checkpoint/collective_work.h"
#include "engine/checkpoint/file_io.h"

namespace tessera::engine {

using base::Concat;

std::string_view ToString(OnSaveError choice) {
  return choice == OnSaveError::kStop ? "stop" : "continue";
}

OnSaveError OnSaveErrorFromString(std::string_view text) {
  for (const OnSaveError choice : {OnSaveError::kStop, OnSaveError::kContinue}) {
    if (ToString(choice) == text) return choice;
  }
  throw base::ConfigError("--on-save-error", "", Concat("\"", text, "\""), "stop or continue");
}

CheckpointSaver::CheckpointSaver(SaveOptions options, std::vector<std::string> damaged,
                                 Communicator& world, Callbacks callbacks)
    : options_(std::move(options)),
      damaged_(std::move(damaged)),
      world_(world),
      callbacks_(std::move(callbacks)) {}

void CheckpointSaver::Save(const TrainState& state, const CheckpointInfo& info) {
  Wait();
  Guard([&] { Start(state, info); });
  if (!options_.is_asynchronous) Wait();
}

void CheckpointSaver::SaveLast(const TrainState& state, const CheckpointInfo& info) {
  Wait();
  options_.on_error = OnSaveError::kStop;
  Save(state, info);
  Wait();
}

void CheckpointSaver::Poll() {
  while (pending_ && IsPhaseDoneOnAllRanks()) Guard([&] { FinishPhase(); });
}

void CheckpointSaver::Wait() {
  while (pending_) Guard([&] { FinishPhase(); });
}

void CheckpointSaver::Start(const TrainState& state, const CheckpointInfo& info) {
  pending_ = Pending{};
  pending_->save =
      std::make_unique<CheckpointSave>(state, info,
                                       CheckpointSave::Place{.save_folder = options_.folder,
                                                             .suffix = SharedSuffix(world_),
                                                             .rank = world_.rank(),
                                                             .num_ranks = world_.size()});
  CheckpointSave& save = *pending_->save;
  RunOnFirstRank(world_, "saving " + save.folder(), [&] {
    // One that vanished, with a disk or by mistake, is not made anew behind the user's back.
    RequireFolder(options_.folder);
    save.Begin();
  });
  if (options_.is_asynchronous) save.Detach();
  Launch([&save] { save.WriteOwnParts(); });
}

void CheckpointSaver::Launch(std::function<void()> work) {
  const auto policy = options_.is_asynchronous ? std::launch::async : std::launch::deferred;
  pending_->work = std::async(policy, std::move(work));
}

void CheckpointSaver::StartCommit() {
  pending_->is_committing = true;
  if (is_first()) Launch([this, pending = &*pending_] { Commit(*pending); });
}

void CheckpointSaver::Commit(Pending& pending) const {
  pending.save->Commit();
  if (options_.keep_last == 0) return;
  try {
    RemoveOldCheckpoints(options_.folder, pending.save->step(), options_.keep_last, damaged_);
  } catch (const base::SystemError& error) {  // what was to be saved is saved
    pending.removal_problem = error.what();
  }
}

void CheckpointSaver::FinishPhase() {
  RunOnAllRanks(world_, "saving " + pending_->save->folder(), [&] {
    if (pending_->work.valid()) pending_->work.get();
  });
  if (!pending_->is_committing) {
    StartCommit();
    return;
  }
  last_saved_step_ = pending_->save->step();
  const std::string folder = pending_->save->folder();
  const std::string problem = pending_->removal_problem;
  pending_.reset();
  if (!is_first()) return;
  callbacks_.on_saved(folder);
  if (!problem.empty()) callbacks_.on_warning("old checkpoints stay: " + problem);
}

bool CheckpointSaver::IsPhaseDoneOnAllRanks() {
  const bool is_running =
      pending_->work.valid() &&
      pending_->work.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  const int32_t mine = is_running ? 0 : 1;
  int32_t all = 0;
  world_.AllReduce(&mine, &all, 1, base::DType::kInt32, base::ReduceOp::kMin);
  return all == 1;
}

void CheckpointSaver::Guard(const std::function<void()>& part) {
  try {
    part();
  } catch (const base::SystemError& error) {
    // The ranks have failed together, and none of them writes any more.
    if (is_first() && pending_) pending_->save->Abandon();
    pending_.reset();
    if (options_.on_error == OnSaveError::kStop) throw;
    if (is_first()) callbacks_.on_warning(Concat(error.what(), "; training goes on unsaved"));
  }
}

}  // namespace tessera::engine
