#include "engine/comm/thread_world_state.h"

#include "engine/comm/thread_group.h"

namespace tessera::engine {

ThreadWorldState::ThreadWorldState(int num_ranks, const ThreadWorldOptions& options)
    : options_(options), wait_policy_(WaitPolicyFor(num_ranks)), ended_(num_ranks) {}

ThreadWorldState::~ThreadWorldState() = default;

EventCount::Clock::time_point ThreadWorldState::Deadline() const {
  using Seconds = std::chrono::duration<double>;
  return EventCount::Clock::now() +
         std::chrono::duration_cast<EventCount::Clock::duration>(Seconds(options_.timeout_s));
}

ThreadGroup& ThreadWorldState::AddGroup(std::string name, std::vector<int> world_ranks) {
  auto group = std::make_unique<ThreadGroup>(*this, std::move(name), std::move(world_ranks));
  const std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
  return *groups_.back();
}

void ThreadWorldState::Abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return;
    abort_reason_ = reason;
    aborted_.store(true, std::memory_order_release);
  }
  NotifyAllGroups();
}

void ThreadWorldState::ThrowAborted(const std::string& what) const {
  const std::lock_guard lock(mutex_);
  throw AbortedError(base::Concat(what, " aborted: ", abort_reason_));
}

void ThreadWorldState::MarkEnded(int world_rank) {
  ended_[world_rank].store(true, std::memory_order_release);
  num_ended_.fetch_add(1, std::memory_order_acq_rel);
  NotifyAllGroups();
}

void ThreadWorldState::NotifyAllGroups() {
  const std::lock_guard lock(mutex_);
  for (const auto& group : groups_) group->Notify();
}

}  // namespace tessera::engine
