// One rank's part of an NCCL world: where its operations run, whether they go well, and a watchdog
// that ends all of them when they do not. NCCL has no timeout of its own: without the watchdog a
// rank whose peer is lost waits for ever.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/comm/nccl_job.h"

namespace tessera::engine {

class NcclGroup;

struct NcclWorldOptions {
  int rank = 0;
  int num_ranks = 1;
  int device = 0;
  cudaStream_t compute_stream = nullptr;  // outlives the world
  double timeout_s = 600;                 // from posting, or from the end of the operation before
};

class NcclWorld {
 public:
  // `job`: shared with the other ranks of this process.
  NcclWorld(const NcclWorldOptions& options, std::shared_ptr<NcclJob> job);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  int rank() const { return options_.rank; }
  int num_ranks() const { return options_.num_ranks; }
  double timeout_s() const { return options_.timeout_s; }
  cudaStream_t compute_stream() const { return options_.compute_stream; }
  NcclJob& job() { return *job_; }

  // What failures name from now on; -1 for none.
  void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }
  // "rank 2, step 7"
  std::string Describe() const;

  // Fails every rank of this process; the groups' pending operations end. The first reason stays.
  void Fail(const std::string& reason) { job_->Fail(options_.rank, reason); }
  // Throws base::CommError with the failure's reason where this rank found it, else AbortedError
  // saying that `what` of `group` was aborted and why; nothing where all is well.
  void ThrowIfFailed(std::string_view what, std::string_view group) const;
  bool failed() const { return job_->failure().has_value(); }

  // Blocks until the compute stream has run what it was given. Throws as ThrowIfFailed does.
  void WaitForCompute(std::string_view what, std::string_view group) const;

  // To be called behind every launch of a graph on the compute stream.
  void FollowLaunch();

  // The watchdog looks after a group from Add until Remove returns.
  void Add(NcclGroup& group);
  void Remove(NcclGroup& group);

 private:
  void Watch(const std::stop_token& stop);
  // Fails the world where a group has a problem.
  void FindProblem();
  void AbortGroups();

  const NcclWorldOptions options_;
  const std::shared_ptr<NcclJob> job_;
  std::atomic<int64_t> step_{-1};
  std::mutex mutex_;                // of groups_, held while one of them is looked at
  std::vector<NcclGroup*> groups_;  // changed by the rank's own thread alone
  std::jthread watchdog_;
};

}  // namespace tessera::engine
