// What the ranks of one process share of an NCCL world: whether it has failed, and how far each of
// them has come. NCCL itself tells neither.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"

namespace tessera::engine {

// Safe to call from every rank's threads.
class NcclJob {
 public:
  struct Failure {
    int rank = 0;  // that found it
    std::string reason;
  };

  // Ranks of this process; others are never known to be behind.
  void AddRank(int world_rank);

  // The first failure stays. Wakes every watchdog.
  void Fail(int world_rank, const std::string& reason);
  std::optional<Failure> failure() const;
  // Returns after `time`, or as soon as there is a failure or `stop` is requested.
  void Sleep(std::chrono::duration<double> time, const std::stop_token& stop) const;

  // How many operations a rank has called in a group: for the rank to count on.
  using Counter = std::atomic<int64_t>;
  // Of `group`, an id that all its ranks use. Lives as long as the job.
  Counter& CounterOf(const std::string& group, int world_rank);
  // Those of `world_ranks` that have not called operation `number` of `group`, counted from 0.
  std::vector<int> RanksBehind(const std::string& group, const std::vector<int>& world_ranks,
                               int64_t number) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable_any failed_;
  std::optional<Failure> failure_;
  std::set<int> ranks_;
  std::map<std::pair<std::string, int>, Counter> num_posted_;  // by group and rank
};

// One job for the ranks of `host_world`, threads of this process, which share it: the last one to
// go ends it. Collective over `host_world`.
std::shared_ptr<NcclJob> ShareNcclJob(Communicator& host_world);

}  // namespace tessera::engine
