// What the ranks of one thread world share: its groups, whether it was aborted, who has ended.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/comm/event_count.h"
#include "engine/comm/thread_world.h"

namespace tessera::engine {

class ThreadGroup;

// Thrown to ranks whose world another rank has aborted: never the cause of a failure.
class AbortedError : public base::CommError {
 public:
  using CommError::CommError;
};

// Safe to call from every rank's thread. Lives as long as RunThreadRanks, and so do its groups.
class ThreadWorldState {
 public:
  ThreadWorldState(int num_ranks, const ThreadWorldOptions& options);
  ~ThreadWorldState();
  ThreadWorldState(const ThreadWorldState&) = delete;
  ThreadWorldState& operator=(const ThreadWorldState&) = delete;

  int num_ranks() const { return static_cast<int>(ended_.size()); }
  const ThreadWorldOptions& options() const { return options_; }
  const WaitPolicy& wait_policy() const { return wait_policy_; }
  EventCount::Clock::time_point Deadline() const;

  // A group over `world_ranks`, index = rank in the group.
  ThreadGroup& AddGroup(std::string name, std::vector<int> world_ranks);

  // The first reason stays. Wakes every waiting rank.
  void Abort(const std::string& reason);
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  // Throws AbortedError("`what` aborted: reason"). REQUIRES: aborted().
  [[noreturn]] void ThrowAborted(const std::string& what) const;

  // The rank's thread posts nothing any more.
  void MarkEnded(int world_rank);
  bool AnyEnded() const { return num_ended_.load(std::memory_order_acquire) > 0; }
  bool HasEnded(int world_rank) const { return ended_[world_rank].load(std::memory_order_acquire); }

 private:
  void NotifyAllGroups();

  const ThreadWorldOptions options_;
  const WaitPolicy wait_policy_;
  std::atomic<bool> aborted_{false};
  std::vector<std::atomic<bool>> ended_;  // [num_ranks]
  std::atomic<int> num_ended_{0};
  mutable std::mutex mutex_;  // of the members below
  std::string abort_reason_;
  std::vector<std::unique_ptr<ThreadGroup>> groups_;
};

}  // namespace tessera::engine
