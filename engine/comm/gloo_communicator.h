// One rank's end of a group of the `gloo` backend. A blocking send returns when its receive has
// been posted and the data is on its way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/comm/gloo_group.h"
#include "engine/comm/process_world.h"

namespace tessera::engine {

class GlooCommunicator final : public ProcessCommunicator {
 public:
  // All ranks of `world`, which goes with the communicator. Collective over them.
  explicit GlooCommunicator(std::unique_ptr<GlooWorld> world);
  // Of all ranks: waits for the others to come here too, unless the run has failed.
  ~GlooCommunicator() override;

  int rank() const override { return group_->info().rank; }
  int size() const override { return group_->size(); }
  const std::string& name() const override { return group_->info().name; }

  void GroupStart() override;
  std::unique_ptr<CommHandle> GroupEndAsync() override;
  std::unique_ptr<Communicator> Split(int color, int key, const std::string& name) override;
  void Abort(const std::string& reason) override;
  void BeginStep(int64_t step) override;
  double blocked_s() const override { return blocked_s_; }

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
                   std::span<const int64_t> receive_counts, base::DType dtype) override {
    Communicator::DoAllToAllV(input, send_counts, output, receive_counts, dtype);
  }
  void DoBarrier() override;
  std::unique_ptr<CommHandle> DoSend(const void* data, int64_t count, base::DType dtype, int peer,
                                     int tag) override;
  std::unique_ptr<CommHandle> DoRecv(void* data, int64_t count, base::DType dtype, int peer,
                                     int tag) override;

 private:
  class CollectiveHandle;
  class MessageHandle;
  class GroupHandle;
  // Called between GroupStart and GroupEnd, which posts them: an error in between leaves no buffer
  // in use.
  struct Grouped {
    CommOp op;
    void* data = nullptr;
    int peer = 0;
  };

  explicit GlooCommunicator(std::unique_ptr<GlooGroup> group) : group_(std::move(group)) {}
  std::unique_ptr<CommHandle> Post(const CollectiveHeader& header, const void* input, void* output);
  std::unique_ptr<CommHandle> PostMessage(CommOp::Kind kind, void* data, int64_t count,
                                          base::DType dtype, int peer, int tag);

  // Takes what the rank sends to itself, and receives, out of a group.
  void DeliverToItself(std::vector<Grouped>& messages) const;

  const std::unique_ptr<GlooWorld> world_;  // of all ranks; null for a split
  std::unique_ptr<GlooGroup> group_;
  int64_t num_splits_ = 0;
  double blocked_s_ = 0;
  bool in_group_ = false;
  std::vector<Grouped> grouped_;
};

}  // namespace tessera::engine
