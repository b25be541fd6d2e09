#include "engine/comm/thread_communicator.h"

#include <type_traits>
#include <utility>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

Envelope EnvelopeOf(const CommOp& op) {
  return {.tag = op.tag, .dtype = op.header.dtype, .count = op.header.count};
}

}  // namespace

class ThreadCommunicator::CollectiveHandle final : public CommHandle {
 public:
  CollectiveHandle(ThreadCommunicator& comm, int64_t number, int64_t record)
      : comm_(comm), number_(number), record_(record) {}
  ~CollectiveHandle() override {
    if (!waited_) comm_.group_.Abandon(comm_.rank_, number_);
  }
  void Wait() override {
    if (std::exchange(waited_, true)) return;
    const BlockedTimer timer = comm_.TimeBlocked();
    comm_.group_.Wait(comm_.rank_, number_);
    comm_.activity().End(record_);
  }

 private:
  ThreadCommunicator& comm_;
  const int64_t number_;
  const int64_t record_;
  bool waited_ = false;
};

// One end of a message, a PendingSend or a PendingRecv.
template <typename Transfer>
class ThreadCommunicator::TransferHandle final : public CommHandle {
 public:
  TransferHandle(ThreadCommunicator& comm, const Call& call, Mailbox& mailbox,
                 decltype(Transfer::data) data)
      : comm_(comm), call_(call), mailbox_(mailbox) {
    transfer_.envelope = EnvelopeOf(call.op);
    transfer_.data = data;
    comm_.CheckFits(call.op, mailbox_.Post(transfer_));
  }
  ~TransferHandle() override { comm_.AbandonTransfer(call_.op, transfer_, mailbox_); }
  void Wait() override {
    const BlockedTimer timer = comm_.TimeBlocked();
    if constexpr (std::is_same_v<Transfer, PendingSend>) {
      if (!comm_.group_.world().options().rendezvous_sends) mailbox_.Buffer(transfer_);
    }
    comm_.AwaitTransfer(call_.op, transfer_, mailbox_);
    comm_.activity().End(call_.record);
  }

 private:
  ThreadCommunicator& comm_;
  const Call call_;
  Mailbox& mailbox_;
  Transfer transfer_;
};

std::unique_ptr<CommHandle> ThreadCommunicator::PostCollective(const Call& call) {
  group_.Post(rank_, call.op.number, call.op.header, call.input, call.output);
  return std::make_unique<CollectiveHandle>(*this, call.op.number, call.record);
}

std::unique_ptr<CommHandle> ThreadCommunicator::PostMessage(const Call& call) {
  if (call.op.kind == CommOp::Kind::kSend) {
    return std::make_unique<TransferHandle<PendingSend>>(
        *this, call, group_.mailbox(rank_, call.peer), call.input);
  }
  return std::make_unique<TransferHandle<PendingRecv>>(
      *this, call, group_.mailbox(call.peer, rank_), call.output);
}

std::unique_ptr<Communicator> ThreadCommunicator::Split(int color, int key,
                                                        const std::string& name) {
  SplitRequest request = {.color = color, .key = key, .name = name};
  Call call = {.output = &request};
  call.op = {.kind = CommOp::Kind::kCollective, .header = {.kind = CollectiveKind::kSplit}};
  call.record = Begin(call.op);
  PostCollective(call)->Wait();
  if (request.group == nullptr) return nullptr;
  return std::make_unique<ThreadCommunicator>(*request.group, request.rank, activity());
}

void ThreadCommunicator::Abort(const std::string& reason) { group_.world().Abort(reason); }

std::string ThreadCommunicator::Describe(const CommOp& op) const {
  return base::Concat(group_.Describe(rank_), ": ", TitleOf(op));
}

void ThreadCommunicator::CheckFits(const CommOp& mine, const std::optional<Envelope>& other) {
  if (!other) return;
  const std::string reason =
      base::Concat(Describe(mine), ": ", ShapeOf(mine), " here, ", other->count, ' ',
                   base::ToString(other->dtype), " there");
  group_.world().Abort(reason);
  throw base::CommError(reason);
}

template <typename Pending>
void ThreadCommunicator::AwaitTransfer(const CommOp& op, Pending& pending, Mailbox& mailbox) {
  ThreadWorldState& world = group_.world();
  const auto ready = [&] { return pending.done.load(std::memory_order_acquire); };
  const auto interrupted = [&] { return world.aborted() || world.HasEnded(op.peer); };
  const WaitResult result =
      mailbox.event().Await(world.wait_policy(), world.Deadline(), ready, interrupted);
  const bool is_lost = result != WaitResult::kReady && mailbox.Withdraw(pending);
  if (world.aborted()) world.ThrowAborted(Describe(op));
  if (!is_lost) return;
  const std::string reason =
      result == WaitResult::kTimedOut
          ? base::Concat(Describe(op), " timed out after ", world.options().timeout_s, " s; rank ",
                         op.peer, " has not posted its end")
          : base::Concat(Describe(op), " cannot complete; rank ", op.peer, " has ended without it");
  world.Abort(reason);
  throw base::CommError(reason);
}

template <typename Pending>
void ThreadCommunicator::AbandonTransfer(const CommOp& op, Pending& pending, Mailbox& mailbox) {
  if (pending.done.load(std::memory_order_acquire) || !mailbox.Withdraw(pending)) return;
  group_.world().Abort(base::Concat(Describe(op), " was given up"));
}

}  // namespace tessera::engine
