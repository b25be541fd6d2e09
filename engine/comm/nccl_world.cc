#include "engine/comm/nccl_world.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cost_model/base/error.h"
#include "engine/comm/nccl_group.h"
#include "engine/comm/thread_world_state.h"
#include "kernels/cuda/cuda_error.h"

namespace tessera::engine {
namespace {

// How late the watchdog may be; a look costs a few calls a group.
constexpr std::chrono::duration<double> kWatchInterval{0.05};

}  // namespace

NcclWorld::NcclWorld(const NcclWorldOptions& options, std::shared_ptr<NcclJob> job)
    : options_(options), job_(std::move(job)) {
  job_->AddRank(options_.rank);
  watchdog_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
}

NcclWorld::~NcclWorld() = default;  // stops and joins the watchdog

std::string NcclWorld::Describe() const {
  const int64_t step = step_.load(std::memory_order_relaxed);
  return step < 0 ? base::Concat("rank ", options_.rank)
                  : base::Concat("rank ", options_.rank, ", step ", step);
}

void NcclWorld::ThrowIfFailed(std::string_view what, std::string_view group) const {
  const auto failure = job_->failure();
  if (!failure) return;
  if (failure->rank == options_.rank) throw base::CommError(failure->reason);
  throw AbortedError(
      base::Concat(Describe(), ": ", what, " of ", group, " aborted: ", failure->reason));
}

void NcclWorld::WaitForCompute(std::string_view what, std::string_view group) const {
  ThrowIfFailed(what, group);
  const cudaError_t status = cudaStreamSynchronize(options_.compute_stream);
  ThrowIfFailed(what, group);
  kernels::cuda::CheckCuda(status, "cudaStreamSynchronize");
}

void NcclWorld::FollowLaunch() {
  // Without the lock: the watchdog keeps it while it aborts, which may take until the graph is
  // gone.
  for (NcclGroup* const group : groups_) group->FollowLaunch();
}

void NcclWorld::Add(NcclGroup& group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(&group);
}

void NcclWorld::Remove(NcclGroup& group) {
  const std::lock_guard lock(mutex_);
  std::erase(groups_, &group);
}

void NcclWorld::Watch(const std::stop_token& stop) {
  // A device that cannot be used is told to the rank's own thread by its next call.
  cudaSetDevice(options_.device);
  while (!stop.stop_requested()) {
    if (failed()) {
      AbortGroups();
      return;
    }
    FindProblem();
    job_->Sleep(kWatchInterval, stop);
  }
}

void NcclWorld::FindProblem() {
  const std::lock_guard lock(mutex_);
  for (NcclGroup* const group : groups_) {
    if (const auto problem = group->Problem()) return Fail(*problem);
  }
}

// All at once: NCCL ends what is in flight at once, but does not return while a graph with
// operations of the communicator lives, and the rank destroys it only when all that it waits for
// has ended.
void NcclWorld::AbortGroups() {
  const std::lock_guard lock(mutex_);
  std::vector<std::jthread> aborts;
  for (NcclGroup* const group : groups_) {
    aborts.emplace_back([this, group] {
      cudaSetDevice(options_.device);
      group->Abort();
    });
  }
}

}  // namespace tessera::engine
