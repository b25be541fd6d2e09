// One NCCL communicator of one rank with its stream, and the operations in flight on it.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/nccl_world.h"
#include "kernels/cuda/cuda_resources.h"

namespace tessera::engine {

struct NcclGroupInfo {
  std::string name;              // "tp{0,1}"
  std::string id;                // the same on all ranks of the group, and no other group's
  std::vector<int> world_ranks;  // by rank in the group
  int rank = 0;                  // in the group
};

// Called from the rank's own thread, Problem and Abort from the watchdog's. Operations of a group
// run one after the other in the order of Post; those that are posted while the compute stream is
// captured become part of its graph, and run at each launch in one go.
class NcclGroup {
 public:
  // A mark behind one operation. Owned by whoever waits for the operation and by the list of those
  // in flight that the watchdog reads: either may be the last.
  using Done = std::shared_ptr<const kernels::cuda::Event>;
  using Enqueue = std::function<ncclResult_t(ncclComm_t comm, cudaStream_t stream)>;

  // `make_comm` makes the communicator under the given name, which outlives it; empty for a group
  // of one rank, which needs none. Throws base::CommError when it fails.
  NcclGroup(NcclWorld& world, NcclGroupInfo info,
            const std::function<ncclResult_t(const char* name, ncclComm_t* comm)>& make_comm);
  // Waits for the operations in flight; gives them up where the world has failed or an error
  // unwinds.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  const NcclGroupInfo& info() const { return info_; }
  int size() const { return static_cast<int>(info_.world_ranks.size()); }
  NcclWorld& world() const { return world_; }
  // Device memory for the group's own messages: 16 bytes a rank, then 16 more.
  std::byte* scratch() const { return scratch_->data(); }

  // A graph was launched on the compute stream: if it has operations of this group, the watchdog
  // takes all of them for one.
  void FollowLaunch();

  // Lets `enqueue` put an operation onto the group's stream, behind all that the compute stream was
  // given so far. Throws base::CommError naming operation, group and number. REQUIRES: size() > 1.
  Done Post(const char* what, const Enqueue& enqueue);
  // What the compute stream is given from now on runs after the operation.
  void MakeComputeWait(const char* what, const kernels::cuda::Event& done) const;
  // A call of NCCL's that returns when it is done, as the split of a communicator.
  void Call(const char* what, const std::function<ncclResult_t(ncclComm_t comm)>& call);

  // What is wrong: an error that NCCL found, or an operation that has timed out.
  std::optional<std::string> Problem();
  // Ends the operations in flight. REQUIRES: the world has failed.
  void Abort();

 private:
  using Clock = std::chrono::steady_clock;
  struct InFlight {
    const char* what = "";
    int64_t number = 0;
    Clock::time_point since;                     // posted, or first in the queue if that is later
    std::shared_ptr<kernels::cuda::Event> done;  // null while NCCL is being called
  };

  std::string Describe(const char* what, int64_t number) const;
  // Runs `call` as operation `number`.
  void CallNccl(const char* what, int64_t number,
                const std::function<ncclResult_t(ncclComm_t comm)>& call);
  int64_t Begin(const char* what);
  // An event that nobody else has.
  std::shared_ptr<kernels::cuda::Event> TakeEvent();
  // From here on the operation is over when `done` is; null: it is over already.
  void End(int64_t number, std::shared_ptr<kernels::cuda::Event> done);

  NcclWorld& world_;
  const NcclGroupInfo info_;
  kernels::cuda::Stream stream_;
  kernels::cuda::Event compute_so_far_;
  std::optional<kernels::cuda::DeviceMemory> scratch_;  // where size() > 1
  // Held while NCCL is called, so that it is not aborted under a call that makes progress.
  std::timed_mutex call_mutex_;
  std::mutex mutex_;  // of what follows
  ncclComm_t comm_ = nullptr;
  std::deque<InFlight> in_flight_;
  std::vector<std::shared_ptr<kernels::cuda::Event>> free_events_;  // of what is over
  NcclJob::Counter* num_posted_ = nullptr;
  bool is_in_graph_ = false;  // operations were captured
};

}  // namespace tessera::engine
