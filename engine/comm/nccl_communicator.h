// The `nccl` backend: device memory, GPU to GPU. Collectives are enqueued on the group's own
// stream behind what the compute stream was given so far, and nothing waits on the host: Wait makes
// the compute stream wait. A blocking form is its asynchronous form and Wait.
//
// Beyond the interface, or short of it:
// - Operations of one group run in the order of posting, messages too. A receive posted ahead of a
//   send must not be what the send's peer waits for: exchanges in both directions go in a group.
// - Messages between two ranks match in order of posting; tags are not looked at.
// - Sums are NCCL's: the order depends on its algorithm, but for two ranks, and 16-bit types are
//   rounded at every addition; averages of integers overflow where their sums do.
// - Barrier holds up the compute stream, not the host.
// - blocked_s() is 0: the host does not wait, and what the GPU waits shows in its own timeline.
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/nccl_group.h"
#include "engine/comm/nccl_world.h"

namespace tessera::engine {

class NcclCommunicator final : public Communicator {
 public:
  // All ranks of `world`, which outlives the communicator. Collective: every rank passes the `id`
  // that rank 0 got from NcclUniqueId. Throws base::CommError when NCCL cannot connect them.
  static std::unique_ptr<NcclCommunicator> MakeWorld(NcclWorld& world, const ncclUniqueId& id);

  int rank() const override { return group_->info().rank; }
  int size() const override { return group_->size(); }
  const std::string& name() const override { return group_->info().name; }

  void GroupStart() override;
  std::unique_ptr<CommHandle> GroupEndAsync() override;
  // Waits on the host for the other ranks: for the start of a run.
  std::unique_ptr<Communicator> Split(int color, int key, const std::string& name) override;
  void Abort(const std::string& reason) override;
  void BeginStep(int64_t step) override { group_->world().set_step(step); }

 protected:
  std::unique_ptr<CommHandle> DoAllReduce(const void* input, void* output, int64_t count,
                                          base::DType dtype, base::ReduceOp op) override;
  std::unique_ptr<CommHandle> DoReduceScatter(const void* input, void* output, int64_t count,
                                              base::DType dtype, base::ReduceOp op) override;
  std::unique_ptr<CommHandle> DoAllGather(const void* input, void* output, int64_t count,
                                          base::DType dtype) override;
  void DoBroadcast(void* data, int64_t count, base::DType dtype, int root) override;
  void DoAllToAll(const void* input, void* output, int64_t count, base::DType dtype) override;
  void DoAllToAllV(const void* input, std::span<const int64_t> send_counts, void* output,
                   std::span<const int64_t> receive_counts, base::DType dtype) override;
  void DoBarrier() override;
  std::unique_ptr<CommHandle> DoSend(const void* data, int64_t count, base::DType dtype, int peer,
                                     int tag) override;
  std::unique_ptr<CommHandle> DoRecv(void* data, int64_t count, base::DType dtype, int peer,
                                     int tag) override;

 private:
  class Handle;
  // One rank's wish in a split; travels as bytes.
  struct SplitRequest {
    int32_t color = 0, key = 0, world_rank = 0, rank = 0;
  };
  using Message = std::function<ncclResult_t(ncclComm_t comm, cudaStream_t stream)>;

  explicit NcclCommunicator(std::unique_ptr<NcclGroup> group) : group_(std::move(group)) {}

  std::unique_ptr<CommHandle> Post(const char* what, const NcclGroup::Enqueue& enqueue);
  // Of a group of one rank: the output is the input.
  std::unique_ptr<CommHandle> CopyAlone(const void* input, void* output, int64_t num_bytes);
  std::unique_ptr<CommHandle> PostMessage(const char* what, Message message);
  std::vector<SplitRequest> GatherRequests(const SplitRequest& mine);

  std::unique_ptr<NcclGroup> group_;
  bool in_group_ = false;
  std::vector<Message> grouped_;  // called between GroupStart and GroupEnd, which posts them
  int64_t num_splits_ = 0;
};

// For rank 0 to hand to all ranks. Throws base::CommError.
ncclUniqueId NcclUniqueId();

}  // namespace tessera::engine
