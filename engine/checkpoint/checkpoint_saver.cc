#include "engine/checkpoint/checkpoint_saver.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "cost_model/base/error.h"
#include "engine/checkpoint/collective_work.h"

namespace tessera::engine {

using base::Concat;

namespace {

// How often ranks whose disks are at work show up among those that wait for them, which would take
// them for lost otherwise.
constexpr double kShowUpS = 1;
// Of the patience with a disk: when it is first called slow. The next time is after twice as long.
constexpr double kSlowShare = 1.0 / 60;

}  // namespace

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
  while (pending_ && WaitFor(0, 0).for_rank < 0) Guard([&] { FinishPhase(); });
}

void CheckpointSaver::Wait() {
  while (pending_) {
    Guard([&] {
      AwaitPhase();
      FinishPhase();
    });
  }
}

void CheckpointSaver::Start(const TrainState& state, const CheckpointInfo& info) {
  pending_ = Pending{};
  pending_->save =
      std::make_unique<CheckpointSave>(state, info,
                                       CheckpointSave::Place{.save_folder = options_.folder,
                                                             .suffix = SharedSuffix(world_),
                                                             .rank = world_.rank(),
                                                             .num_ranks = world_.size()});
  if (options_.is_asynchronous) pending_->save->Detach();
  StartPhase(Phase::kBegin);
}

void CheckpointSaver::StartPhase(Phase phase) {
  pending_->phase = phase;
  if (phase != Phase::kWrite && !is_first()) return;
  pending_->work = std::async(std::launch::async, [this, pending = &*pending_] { Work(*pending); });
}

void CheckpointSaver::Work(Pending& pending) const {
  switch (pending.phase) {
    case Phase::kBegin:
      return pending.save->Begin();
    case Phase::kWrite:
      return pending.save->WriteOwnParts();
    case Phase::kCommit:
      return Commit(pending);
  }
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
  if (pending_->phase == Phase::kBegin) return StartPhase(Phase::kWrite);
  if (pending_->phase == Phase::kWrite) return StartPhase(Phase::kCommit);
  last_saved_step_ = pending_->save->step();
  const std::string folder = pending_->save->folder();
  const std::string problem = pending_->removal_problem;
  pending_.reset();
  if (!is_first()) return;
  callbacks_.on_saved(folder);
  if (!problem.empty()) callbacks_.on_warning("old checkpoints stay: " + problem);
}

void CheckpointSaver::AwaitPhase() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  double told_after_s = kSlowShare * options_.patience_s;
  for (;;) {
    const std::chrono::duration<double> waited = Clock::now() - begin;
    const Waiting waiting = WaitFor(std::min(kShowUpS, options_.patience_s / 4), waited.count());
    if (waiting.for_rank < 0) return;
    const std::string problem = Concat(
        "saving ", pending_->save->folder(), ": rank ", waiting.for_rank, " still writes after ",
        std::lround(waiting.waited_s), " s: its disk is slow, or hangs");
    if (waiting.waited_s >= options_.patience_s) {
      pending_->is_stuck = true;
      MeetBeforeFailing(world_);
      throw base::SystemError(problem);
    }
    if (waiting.waited_s < told_after_s) continue;
    told_after_s *= 2;
    if (is_first()) callbacks_.on_warning(problem);
  }
}

CheckpointSaver::Waiting CheckpointSaver::WaitFor(double limit_s, double waited_s) {
  const bool is_running =
      pending_->work.valid() && pending_->work.wait_for(std::chrono::duration<double>(limit_s)) ==
                                    std::future_status::timeout;
  const int32_t mine[] = {is_running ? world_.rank() : -1, static_cast<int32_t>(1000 * waited_s)};
  int32_t all[] = {0, 0};
  world_.AllReduce(mine, all, 2, base::DType::kInt32, base::ReduceOp::kMax);
  return {.for_rank = all[0], .waited_s = all[1] / 1000.0};
}

void CheckpointSaver::Guard(const std::function<void()>& part) {
  try {
    part();
  } catch (const base::SystemError& error) {
    if (pending_ && pending_->is_stuck) throw;
    // The ranks have failed together, and none of them writes any more.
    if (is_first() && pending_) pending_->save->Abandon();
    pending_.reset();
    if (options_.on_error == OnSaveError::kStop) throw;
    if (is_first()) callbacks_.on_warning(Concat(error.what(), "; training goes on unsaved"));
  }
}

}  // namespace tessera::engine
