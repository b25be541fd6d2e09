// One rank's end of a group of the thread backend.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/comm/host_communicator.h"
#include "engine/comm/thread_group.h"

namespace tessera::engine {

class ThreadCommunicator final : public HostCommunicator {
 public:
  // `group` and `activity`, the rank's, outlive the communicator.
  ThreadCommunicator(ThreadGroup& group, int rank, RankActivity& activity)
      : HostCommunicator(activity, activity.AddGroup(group.name(), group.name())),
        group_(group),
        rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  const std::string& name() const override { return group_.name(); }

  std::unique_ptr<Communicator> Split(int color, int key, const std::string& name) override;
  void Abort(const std::string& reason) override;

 protected:
  std::unique_ptr<CommHandle> PostCollective(const Call& call) override;
  std::unique_ptr<CommHandle> PostMessage(const Call& call) override;
  int world_rank(int rank) const override { return group_.world_rank(rank); }

 private:
  class CollectiveHandle;
  template <typename Transfer>
  class TransferHandle;

  // Throws base::CommError when the two ends of a message differ in type or size.
  void CheckFits(const CommOp& mine, const std::optional<Envelope>& other);
  // Waits for a PendingSend or PendingRecv of `mailbox`, the rank's end of `op`.
  template <typename Pending>
  void AwaitTransfer(const CommOp& op, Pending& pending, Mailbox& mailbox);
  // Gives up a transfer: when this returns, nobody touches its buffer any more.
  template <typename Pending>
  void AbandonTransfer(const CommOp& op, Pending& pending, Mailbox& mailbox);
  std::string Describe(const CommOp& op) const;

  ThreadGroup& group_;
  const int rank_;
};

}  // namespace tessera::engine
