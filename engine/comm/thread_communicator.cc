#include "engine/comm/thread_communicator.h"

#include <cstring>
#include <utility>

#include "cost_model/base/check.h"
#include "engine/comm/blocked_timer.h"
#include "engine/comm/done_handle.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;

std::string ToString(const Envelope& envelope) {
  return base::Concat(envelope.count, ' ', base::ToString(envelope.dtype));
}

}  // namespace

class ThreadCommunicator::CollectiveHandle final : public CommHandle {
 public:
  CollectiveHandle(ThreadCommunicator& comm, int64_t number) : comm_(comm), number_(number) {}
  ~CollectiveHandle() override {
    if (!waited_) comm_.group_.Abandon(comm_.rank_, number_);
  }
  void Wait() override {
    if (std::exchange(waited_, true)) return;
    const BlockedTimer timer(comm_.blocked_s_);
    comm_.group_.Wait(comm_.rank_, number_);
  }

 private:
  ThreadCommunicator& comm_;
  const int64_t number_;
  bool waited_ = false;
};

class ThreadCommunicator::SendHandle final : public CommHandle {
 public:
  SendHandle(ThreadCommunicator& comm, int peer, const Envelope& envelope, const void* data)
      : comm_(comm), peer_(peer), mailbox_(comm.group_.mailbox(comm.rank_, peer)) {
    send_.envelope = envelope;
    send_.data = data;
    comm_.CheckFits(send_, peer_, mailbox_.Post(send_));
  }
  ~SendHandle() override { comm_.AbandonTransfer(send_, mailbox_, peer_); }
  void Wait() override {
    const BlockedTimer timer(comm_.blocked_s_);
    if (!comm_.group_.world().options().rendezvous_sends) mailbox_.Buffer(send_);
    comm_.AwaitTransfer(send_, mailbox_, peer_);
  }

 private:
  ThreadCommunicator& comm_;
  const int peer_;
  Mailbox& mailbox_;
  PendingSend send_;
};

class ThreadCommunicator::RecvHandle final : public CommHandle {
 public:
  RecvHandle(ThreadCommunicator& comm, int peer, const Envelope& envelope, void* data)
      : comm_(comm), peer_(peer), mailbox_(comm.group_.mailbox(peer, comm.rank_)) {
    recv_.envelope = envelope;
    recv_.data = data;
    comm_.CheckFits(recv_, peer_, mailbox_.Post(recv_));
  }
  ~RecvHandle() override { comm_.AbandonTransfer(recv_, mailbox_, peer_); }
  void Wait() override {
    const BlockedTimer timer(comm_.blocked_s_);
    comm_.AwaitTransfer(recv_, mailbox_, peer_);
  }

 private:
  ThreadCommunicator& comm_;
  const int peer_;
  Mailbox& mailbox_;
  PendingRecv recv_;
};

class ThreadCommunicator::GroupHandle final : public CommHandle {
 public:
  explicit GroupHandle(std::vector<std::unique_ptr<CommHandle>> handles)
      : handles_(std::move(handles)) {}
  void Wait() override {
    for (const auto& handle : std::exchange(handles_, {})) handle->Wait();
  }

 private:
  std::vector<std::unique_ptr<CommHandle>> handles_;
};

std::unique_ptr<CommHandle> ThreadCommunicator::Post(const CollectiveHeader& header,
                                                     const void* input, void* output) {
  if (size() == 1) {
    const int64_t num_bytes = header.count * SizeBytes(header.dtype);
    if (input != output && num_bytes > 0) std::memcpy(output, input, num_bytes);
    return std::make_unique<DoneHandle>();
  }
  const BlockedTimer timer(blocked_s_);
  ++num_posted_;
  group_.Post(rank_, num_posted_, header, input, output);
  return std::make_unique<CollectiveHandle>(*this, num_posted_);
}

std::unique_ptr<CommHandle> ThreadCommunicator::DoAllReduce(const void* input, void* output,
                                                            int64_t count, DType dtype,
                                                            ReduceOp op) {
  const CollectiveHeader header = {
      .kind = CollectiveKind::kAllReduce, .dtype = dtype, .op = op, .count = count};
  return Post(header, input, output);
}

std::unique_ptr<CommHandle> ThreadCommunicator::DoReduceScatter(const void* input, void* output,
                                                                int64_t count, DType dtype,
                                                                ReduceOp op) {
  const CollectiveHeader header = {
      .kind = CollectiveKind::kReduceScatter, .dtype = dtype, .op = op, .count = count};
  return Post(header, input, output);
}

std::unique_ptr<CommHandle> ThreadCommunicator::DoAllGather(const void* input, void* output,
                                                            int64_t count, DType dtype) {
  return Post({.kind = CollectiveKind::kAllGather, .dtype = dtype, .count = count}, input, output);
}

void ThreadCommunicator::DoBroadcast(void* data, int64_t count, DType dtype, int root) {
  const CollectiveHeader header = {
      .kind = CollectiveKind::kBroadcast, .dtype = dtype, .root = root, .count = count};
  Post(header, data, data)->Wait();
}

void ThreadCommunicator::DoAllToAll(const void* input, void* output, int64_t count, DType dtype) {
  Post({.kind = CollectiveKind::kAllToAll, .dtype = dtype, .count = count}, input, output)->Wait();
}

void ThreadCommunicator::DoBarrier() {
  Post({.kind = CollectiveKind::kBarrier}, nullptr, nullptr)->Wait();
}

std::unique_ptr<Communicator> ThreadCommunicator::Split(int color, int key,
                                                        const std::string& name) {
  SplitRequest request = {.color = color, .key = key, .name = name};
  ++num_posted_;
  const BlockedTimer timer(blocked_s_);
  group_.Post(rank_, num_posted_, {.kind = CollectiveKind::kSplit}, nullptr, &request);
  CollectiveHandle(*this, num_posted_).Wait();
  if (request.group == nullptr) return nullptr;
  return std::make_unique<ThreadCommunicator>(*request.group, request.rank);
}

void ThreadCommunicator::Abort(const std::string& reason) { group_.world().Abort(reason); }

std::unique_ptr<CommHandle> ThreadCommunicator::DoSend(const void* data, int64_t count, DType dtype,
                                                       int peer, int tag) {
  const Envelope envelope = {.tag = tag, .dtype = dtype, .count = count};
  if (!in_group_) return std::make_unique<SendHandle>(*this, peer, envelope, data);
  grouped_sends_.push_back({peer, envelope, data});
  return nullptr;
}

std::unique_ptr<CommHandle> ThreadCommunicator::DoRecv(void* data, int64_t count, DType dtype,
                                                       int peer, int tag) {
  const Envelope envelope = {.tag = tag, .dtype = dtype, .count = count};
  if (!in_group_) return std::make_unique<RecvHandle>(*this, peer, envelope, data);
  grouped_receives_.push_back({peer, envelope, data});
  return nullptr;
}

void ThreadCommunicator::GroupStart() {
  TESSERA_CHECK(!in_group_, name(), ": GroupStart inside a group");
  in_group_ = true;
}

std::unique_ptr<CommHandle> ThreadCommunicator::GroupEndAsync() {
  TESSERA_CHECK(in_group_, name(), ": GroupEnd without GroupStart");
  in_group_ = false;
  std::vector<std::unique_ptr<CommHandle>> handles;
  // Receives first: by the time they are done, the peers have mostly taken the sends themselves,
  // which saves the copies.
  for (const auto& [peer, envelope, data] : std::exchange(grouped_receives_, {})) {
    handles.push_back(std::make_unique<RecvHandle>(*this, peer, envelope, data));
  }
  for (const auto& [peer, envelope, data] : std::exchange(grouped_sends_, {})) {
    handles.push_back(std::make_unique<SendHandle>(*this, peer, envelope, data));
  }
  return std::make_unique<GroupHandle>(std::move(handles));
}

std::string ThreadCommunicator::Describe(const PendingSend& send, int peer) const {
  return base::Concat(group_.Describe(rank_), ": send to rank ", group_.world_rank(peer), ", tag ",
                      send.envelope.tag);
}

std::string ThreadCommunicator::Describe(const PendingRecv& recv, int peer) const {
  return base::Concat(group_.Describe(rank_), ": receive from rank ", group_.world_rank(peer),
                      ", tag ", recv.envelope.tag);
}

template <typename Pending>
void ThreadCommunicator::CheckFits(const Pending& mine, int peer,
                                   const std::optional<Envelope>& other) {
  if (!other) return;
  const std::string reason = base::Concat(Describe(mine, peer), ": ", ToString(mine.envelope),
                                          " here, ", ToString(*other), " there");
  group_.world().Abort(reason);
  throw base::CommError(reason);
}

template <typename Pending>
void ThreadCommunicator::AwaitTransfer(Pending& pending, Mailbox& mailbox, int peer) {
  ThreadWorldState& world = group_.world();
  const int world_peer = group_.world_rank(peer);
  const auto ready = [&] { return pending.done.load(std::memory_order_acquire); };
  const auto interrupted = [&] { return world.aborted() || world.HasEnded(world_peer); };
  const WaitResult result =
      mailbox.event().Await(world.wait_policy(), world.Deadline(), ready, interrupted);
  const bool is_lost = result != WaitResult::kReady && mailbox.Withdraw(pending);
  if (world.aborted()) world.ThrowAborted(Describe(pending, peer));
  if (!is_lost) return;
  const std::string reason =
      result == WaitResult::kTimedOut
          ? base::Concat(Describe(pending, peer), " timed out after ", world.options().timeout_s,
                         " s; rank ", world_peer, " has not posted its end")
          : base::Concat(Describe(pending, peer), " cannot complete; rank ", world_peer,
                         " has ended without it");
  world.Abort(reason);
  throw base::CommError(reason);
}

template <typename Pending>
void ThreadCommunicator::AbandonTransfer(Pending& pending, Mailbox& mailbox, int peer) {
  if (pending.done.load(std::memory_order_acquire) || !mailbox.Withdraw(pending)) return;
  group_.world().Abort(base::Concat(Describe(pending, peer), " was given up"));
}

}  // namespace tessera::engine
