#include "engine/comm/host_communicator.h"

#include <algorithm>
#include <utility>

#include "cost_model/base/check.h"
#include "engine/comm/copy_bytes.h"
#include "engine/comm/done_handle.h"

namespace tessera::engine {

using base::DType;
using base::ReduceOp;

class HostCommunicator::GroupHandle final : public CommHandle {
 public:
  explicit GroupHandle(std::vector<std::unique_ptr<CommHandle>> handles)
      : handles_(std::move(handles)) {}
  void Wait() override {
    for (const auto& handle : std::exchange(handles_, {})) handle->Wait();
  }

 private:
  std::vector<std::unique_ptr<CommHandle>> handles_;
};

std::unique_ptr<CommHandle> HostCommunicator::Post(const CollectiveHeader& header,
                                                   const void* input, void* output) {
  if (size() == 1) {
    CopyBytes(input, output, header.count * SizeBytes(header.dtype));
    return std::make_unique<DoneHandle>();
  }
  const BlockedTimer timer = TimeBlocked();
  Call call = {.input = input, .output = output};
  call.op = {.kind = CommOp::Kind::kCollective, .header = header};
  call.record = Begin(call.op);
  return PostCollective(call);
}

std::unique_ptr<CommHandle> HostCommunicator::DoAllReduce(const void* input, void* output,
                                                          int64_t count, DType dtype, ReduceOp op) {
  const CollectiveHeader header = {
      .kind = CollectiveKind::kAllReduce, .dtype = dtype, .op = op, .count = count};
  return Post(header, input, output);
}

std::unique_ptr<CommHandle> HostCommunicator::DoReduceScatter(const void* input, void* output,
                                                              int64_t count, DType dtype,
                                                              ReduceOp op) {
  const CollectiveHeader header = {
      .kind = CollectiveKind::kReduceScatter, .dtype = dtype, .op = op, .count = count};
  return Post(header, input, output);
}

std::unique_ptr<CommHandle> HostCommunicator::DoAllGather(const void* input, void* output,
                                                          int64_t count, DType dtype) {
  return Post({.kind = CollectiveKind::kAllGather, .dtype = dtype, .count = count}, input, output);
}

void HostCommunicator::DoBroadcast(void* data, int64_t count, DType dtype, int root) {
  const CollectiveHeader header = {
      .kind = CollectiveKind::kBroadcast, .dtype = dtype, .root = root, .count = count};
  Post(header, data, data)->Wait();
}

void HostCommunicator::DoAllToAll(const void* input, void* output, int64_t count, DType dtype) {
  Post({.kind = CollectiveKind::kAllToAll, .dtype = dtype, .count = count}, input, output)->Wait();
}

void HostCommunicator::DoBarrier() {
  Post({.kind = CollectiveKind::kBarrier}, nullptr, nullptr)->Wait();
}

std::unique_ptr<CommHandle> HostCommunicator::PostOrGroup(CommOp::Kind kind, int64_t count,
                                                          DType dtype, int tag, Call call) {
  call.op = {.kind = kind,
             .header = {.dtype = dtype, .count = count},
             .peer = world_rank(call.peer),
             .tag = tag};
  if (!in_group_) return PostNow(call);
  grouped_.push_back(call);
  return nullptr;
}

std::unique_ptr<CommHandle> HostCommunicator::PostNow(Call& call) {
  call.record = Begin(call.op);
  return PostMessage(call);
}

std::unique_ptr<CommHandle> HostCommunicator::DoSend(const void* data, int64_t count, DType dtype,
                                                     int peer, int tag) {
  return PostOrGroup(CommOp::Kind::kSend, count, dtype, tag, {.input = data, .peer = peer});
}

std::unique_ptr<CommHandle> HostCommunicator::DoRecv(void* data, int64_t count, DType dtype,
                                                     int peer, int tag) {
  return PostOrGroup(CommOp::Kind::kReceive, count, dtype, tag, {.output = data, .peer = peer});
}

void HostCommunicator::GroupStart() {
  TESSERA_CHECK(!in_group_, name(), ": GroupStart inside a group");
  in_group_ = true;
}

void HostCommunicator::DeliverToItself(std::vector<Call>& messages) const {
  std::vector<Call> sends, receives;
  for (const Call& message : messages) {
    if (message.peer != rank()) continue;
    (message.op.kind == CommOp::Kind::kSend ? sends : receives).push_back(message);
  }
  std::erase_if(messages, [&](const Call& message) { return message.peer == rank(); });
  for (const Call& send : sends) {
    const auto receive = std::find_if(receives.begin(), receives.end(), [&](const Call& other) {
      return other.op.tag == send.op.tag;
    });
    TESSERA_CHECK(receive != receives.end() && receive->op.header == send.op.header, name(),
                  ": a message to itself of ", ShapeOf(send.op), ", tag ", send.op.tag,
                  " without its receive in the same group");
    CopyBytes(send.input, receive->output, send.op.header.count * SizeBytes(send.op.header.dtype));
    receives.erase(receive);
  }
  TESSERA_CHECK(receives.empty(), name(), ": a receive from itself without its send in the group");
}

std::unique_ptr<CommHandle> HostCommunicator::GroupEndAsync() {
  TESSERA_CHECK(in_group_, name(), ": GroupEnd without GroupStart");
  in_group_ = false;
  const BlockedTimer timer = TimeBlocked();
  std::vector<Call> messages = std::exchange(grouped_, {});
  DeliverToItself(messages);
  // Receives first: a send that finds its receive posted needs no question or copy before it.
  std::stable_partition(messages.begin(), messages.end(), [](const Call& message) {
    return message.op.kind == CommOp::Kind::kReceive;
  });
  std::vector<std::unique_ptr<CommHandle>> handles;
  for (Call& message : messages) handles.push_back(PostNow(message));
  return std::make_unique<GroupHandle>(std::move(handles));
}

}  // namespace tessera::engine
