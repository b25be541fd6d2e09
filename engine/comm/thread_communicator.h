// One rank's end of a group of the thread backend.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/thread_group.h"

namespace tessera::engine {

class ThreadCommunicator final : public Communicator {
 public:
  // `group` outlives the communicator.
  ThreadCommunicator(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  const std::string& name() const override { return group_.name(); }

  void GroupStart() override;
  std::unique_ptr<CommHandle> GroupEndAsync() override;
  std::unique_ptr<Communicator> Split(int color, int key, const std::string& name) override;
  void Abort(const std::string& reason) override;
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
  class SendHandle;
  class RecvHandle;
  class GroupHandle;
  struct GroupedSend {
    int peer = 0;
    Envelope envelope;
    const void* data = nullptr;
  };
  struct GroupedRecv {
    int peer = 0;
    Envelope envelope;
    void* data = nullptr;
  };

  std::unique_ptr<CommHandle> Post(const CollectiveHeader& header, const void* input, void* output);
  // Throws base::CommError when the two ends of a message differ in type or size.
  template <typename Pending>
  void CheckFits(const Pending& mine, int peer, const std::optional<Envelope>& other);
  // Waits for a PendingSend or PendingRecv of `mailbox`, shared with the rank `peer`.
  template <typename Pending>
  void AwaitTransfer(Pending& pending, Mailbox& mailbox, int peer);
  // Gives up a transfer: when this returns, nobody touches its buffer any more.
  template <typename Pending>
  void AbandonTransfer(Pending& pending, Mailbox& mailbox, int peer);
  std::string Describe(const PendingSend& send, int peer) const;
  std::string Describe(const PendingRecv& recv, int peer) const;

  ThreadGroup& group_;
  const int rank_;
  int64_t num_posted_ = 0;  // collectives
  double blocked_s_ = 0;
  bool in_group_ = false;
  // Called between GroupStart and GroupEnd, which posts them: an error in between leaves no buffer
  // in the hands of a peer.
  std::vector<GroupedSend> grouped_sends_;
  std::vector<GroupedRecv> grouped_receives_;
};

}  // namespace tessera::engine
