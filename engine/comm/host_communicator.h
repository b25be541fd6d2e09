// What the communicators of host memory have in common, whether ranks are threads or processes: the
// headers of collectives, groups of messages, and the record of what a rank calls.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/comm/blocked_timer.h"
#include "engine/comm/communicator.h"
#include "engine/comm/rank_activity.h"

namespace tessera::engine {

class HostCommunicator : public Communicator {
 public:
  void GroupStart() final;
  std::unique_ptr<CommHandle> GroupEndAsync() final;
  void BeginStep(int64_t step) final { activity_.set_step(step); }
  double blocked_s() const final { return blocked_s_; }

 protected:
  // A collective, or one end of a message.
  struct Call {
    CommOp op;
    int64_t record = 0;           // for RankActivity::End, once it is over
    const void* input = nullptr;  // of a collective and of a send
    void* output = nullptr;       // of a collective and of a receive
    int peer = 0;                 // of a message: the other end's rank in this group
  };

  // `activity`, the rank's, outlives the communicator; `activity_group` is of its AddGroup.
  HostCommunicator(RankActivity& activity, int activity_group)
      : activity_(activity), activity_group_(activity_group) {}

  // REQUIRES: size() > 1.
  virtual std::unique_ptr<CommHandle> PostCollective(const Call& call) = 0;
  virtual std::unique_ptr<CommHandle> PostMessage(const Call& call) = 0;
  virtual int world_rank(int rank) const = 0;

  RankActivity& activity() { return activity_; }
  // Sets the number of `op` and returns its record.
  int64_t Begin(CommOp& op) { return activity_.Begin(activity_group_, op); }
  // What blocks while it lives counts in blocked_s.
  BlockedTimer TimeBlocked() { return BlockedTimer(blocked_s_); }
  // A group of one rank copies.
  std::unique_ptr<CommHandle> Post(const CollectiveHeader& header, const void* input, void* output);

  std::unique_ptr<CommHandle> DoAllReduce(const void* input, void* output, int64_t count,
                                          base::DType dtype, base::ReduceOp op) final;
  std::unique_ptr<CommHandle> DoReduceScatter(const void* input, void* output, int64_t count,
                                              base::DType dtype, base::ReduceOp op) final;
  std::unique_ptr<CommHandle> DoAllGather(const void* input, void* output, int64_t count,
                                          base::DType dtype) final;
  void DoBroadcast(void* data, int64_t count, base::DType dtype, int root) final;
  void DoAllToAll(const void* input, void* output, int64_t count, base::DType dtype) final;
  void DoAllToAllV(const void* input, std::span<const int64_t> send_counts, void* output,
                   std::span<const int64_t> receive_counts, base::DType dtype) final {
    Communicator::DoAllToAllV(input, send_counts, output, receive_counts, dtype);
  }
  void DoBarrier() final;
  std::unique_ptr<CommHandle> DoSend(const void* data, int64_t count, base::DType dtype, int peer,
                                     int tag) final;
  std::unique_ptr<CommHandle> DoRecv(void* data, int64_t count, base::DType dtype, int peer,
                                     int tag) final;

 private:
  class GroupHandle;

  std::unique_ptr<CommHandle> PostOrGroup(CommOp::Kind kind, int64_t count, base::DType dtype,
                                          int tag, Call call);
  std::unique_ptr<CommHandle> PostNow(Call& call);
  // Takes what the rank sends to itself, and receives, out of a group.
  void DeliverToItself(std::vector<Call>& messages) const;

  RankActivity& activity_;
  const int activity_group_;
  double blocked_s_ = 0;
  bool in_group_ = false;
  // Called between GroupStart and GroupEnd, which posts them: an error in between leaves no buffer
  // in use.
  std::vector<Call> grouped_;
};

}  // namespace tessera::engine
