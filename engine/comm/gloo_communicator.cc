#include "engine/comm/gloo_communicator.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "engine/comm/blocked_timer.h"
#include "engine/comm/done_handle.h"
#include "engine/comm/gloo_collectives.h"
#include "engine/comm/gloo_transfers.h"
#include "engine/comm/lone_handle.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;

// One rank's wish in a split; travels as bytes.
struct GlooSplitRequest {
  int32_t color = 0, key = 0, world_rank = 0, rank = 0;
};

GlooGroupInfo InfoOfAll(const GlooWorld& world) {
  GlooGroupInfo info = {.name = "world", .id = "world", .rank = world.rank()};
  info.world_ranks.resize(static_cast<size_t>(world.num_ranks()));
  std::iota(info.world_ranks.begin(), info.world_ranks.end(), 0);
  return info;
}

// What goes before a message where calls are checked.
struct MessageHeader {
  int64_t count = 0;
  DType dtype = DType::kUInt8;
};

}  // namespace

class GlooCommunicator::CollectiveHandle final : public LoneHandle {
 public:
  CollectiveHandle(GlooCommunicator& comm, std::shared_ptr<GlooGroup::Task> task)
      : comm_(comm), task_(std::move(task)) {}
  ~CollectiveHandle() override {
    if (!waited_) comm_.group_->Abandon(task_);
  }
  void Wait() override {
    if (std::exchange(waited_, true)) return;
    const BlockedTimer timer(comm_.blocked_s_);
    comm_.group_->Await(*task_);
  }
  void GoOnAlone() override { comm_.group_->LetGoOn(*task_); }

 private:
  GlooCommunicator& comm_;
  const std::shared_ptr<GlooGroup::Task> task_;
  bool waited_ = false;
};

// A send or a receive, which Gloo carries out by itself.
class GlooCommunicator::MessageHandle final : public CommHandle {
 public:
  MessageHandle(GlooCommunicator& comm, const Grouped& message)
      : comm_(comm),
        message_(message),
        record_(world().activity().Begin(comm.group_->info().activity, message_.op)),
        transfers_(*comm.group_, message_.op) {
    const CollectiveHeader& header = message_.op.header;
    mine_ = other_ = {.count = header.count, .dtype = header.dtype};
    const uint64_t slot = GlooSlot(GlooTraffic::kMessage, message_.op);
    const uint64_t header_slot = GlooSlot(GlooTraffic::kMessageHeader, message_.op);
    const int64_t num_bytes = header.count * SizeBytes(header.dtype);
    const bool has_header = world().options().checks_calls;
    if (message_.op.kind == CommOp::Kind::kSend) {
      if (has_header) transfers_.Send(&mine_, sizeof(mine_), message_.peer, header_slot);
      transfers_.Send(message_.data, num_bytes, message_.peer, slot);
    } else {
      if (has_header) transfers_.Receive(&other_, sizeof(other_), message_.peer, header_slot);
      transfers_.Receive(message_.data, num_bytes, message_.peer, slot);
    }
  }
  ~MessageHandle() override {
    if (!waited_) world().GiveUp(Describe() + " was given up");
  }
  void Wait() override {
    if (std::exchange(waited_, true)) return;
    const BlockedTimer timer(comm_.blocked_s_);
    GlooWorld::Wait wait(world(), comm_.group_->info(), message_.op);
    transfers_.Await(wait, 0);  // the header, where there is one
    if (mine_.count != other_.count || mine_.dtype != other_.dtype) ThrowMismatch();
    transfers_.AwaitAll(wait);
    world().activity().End(record_);
  }

 private:
  GlooWorld& world() const { return comm_.group_->world(); }
  std::string Describe() const { return world().Describe(comm_.group_->info(), message_.op); }
  [[noreturn]] void ThrowMismatch() const {
    const std::string reason =
        base::Concat(Describe(), ": ", ShapeOf(message_.op), " here, ", other_.count, ' ',
                     base::ToString(other_.dtype), " there");
    world().Fail(reason);
    throw base::CommError(reason);
  }

  GlooCommunicator& comm_;
  Grouped message_;
  const int64_t record_;
  GlooTransfers transfers_;
  MessageHeader mine_;
  MessageHeader other_;
  bool waited_ = false;
};

class GlooCommunicator::GroupHandle final : public CommHandle {
 public:
  explicit GroupHandle(std::vector<std::unique_ptr<CommHandle>> handles)
      : handles_(std::move(handles)) {}
  void Wait() override {
    for (const auto& handle : std::exchange(handles_, {})) handle->Wait();
  }

 private:
  std::vector<std::unique_ptr<CommHandle>> handles_;
};

GlooCommunicator::GlooCommunicator(std::unique_ptr<GlooWorld> world)
    : world_(std::move(world)), group_(std::make_unique<GlooGroup>(*world_, InfoOfAll(*world_))) {}

GlooCommunicator::~GlooCommunicator() {
  if (world_ != nullptr) world_->Leave();
}

std::unique_ptr<CommHandle> GlooCommunicator::Post(const CollectiveHeader& header,
                                                   const void* input, void* output) {
  if (size() == 1) {
    const int64_t num_bytes = header.count * SizeBytes(header.dtype);
    if (input != output && num_bytes > 0) {
      std::memcpy(output, input, static_cast<size_t>(num_bytes));
    }
    return std::make_unique<DoneHandle>();
  }
  const BlockedTimer timer(blocked_s_);
  auto task = group_->Post(header, [this, input, output](GlooWorld::Wait& wait, const CommOp& op) {
    RunGlooCollective(*group_, wait, op, input, output);
  });
  return std::make_unique<CollectiveHandle>(*this, std::move(task));
}

std::unique_ptr<CommHandle> GlooCommunicator::DoAllReduce(const void* input, void* output,
                                                          int64_t count, DType dtype, ReduceOp op) {
  const CollectiveHeader header = {
      .kind = CollectiveKind::kAllReduce, .dtype = dtype, .op = op, .count = count};
  return Post(header, input, output);
}

std::unique_ptr<CommHandle> GlooCommunicator::DoReduceScatter(const void* input, void* output,
                                                              int64_t count, DType dtype,
                                                              ReduceOp op) {
  const CollectiveHeader header = {
      .kind = CollectiveKind::kReduceScatter, .dtype = dtype, .op = op, .count = count};
  return Post(header, input, output);
}

std::unique_ptr<CommHandle> GlooCommunicator::DoAllGather(const void* input, void* output,
                                                          int64_t count, DType dtype) {
  return Post({.kind = CollectiveKind::kAllGather, .dtype = dtype, .count = count}, input, output);
}

void GlooCommunicator::DoBroadcast(void* data, int64_t count, DType dtype, int root) {
  const CollectiveHeader header = {
      .kind = CollectiveKind::kBroadcast, .dtype = dtype, .root = root, .count = count};
  Post(header, data, data)->Wait();
}

void GlooCommunicator::DoAllToAll(const void* input, void* output, int64_t count, DType dtype) {
  Post({.kind = CollectiveKind::kAllToAll, .dtype = dtype, .count = count}, input, output)->Wait();
}

void GlooCommunicator::DoBarrier() {
  Post({.kind = CollectiveKind::kBarrier}, nullptr, nullptr)->Wait();
}

std::unique_ptr<CommHandle> GlooCommunicator::PostMessage(CommOp::Kind kind, void* data,
                                                          int64_t count, DType dtype, int peer,
                                                          int tag) {
  TESSERA_CHECK(peer != rank() || in_group_, name(), ": a message to itself outside a group");
  Grouped message = {.data = data, .peer = peer};
  message.op = {.kind = kind,
                .header = {.dtype = dtype, .count = count},
                .peer = group_->world_rank(peer),
                .tag = tag};
  if (!in_group_) return std::make_unique<MessageHandle>(*this, message);
  grouped_.push_back(message);
  return nullptr;
}

std::unique_ptr<CommHandle> GlooCommunicator::DoSend(const void* data, int64_t count, DType dtype,
                                                     int peer, int tag) {
  // Gloo's buffers serve both directions.
  return PostMessage(CommOp::Kind::kSend, const_cast<void*>(data), count, dtype, peer, tag);
}

std::unique_ptr<CommHandle> GlooCommunicator::DoRecv(void* data, int64_t count, DType dtype,
                                                     int peer, int tag) {
  return PostMessage(CommOp::Kind::kReceive, data, count, dtype, peer, tag);
}

void GlooCommunicator::GroupStart() {
  TESSERA_CHECK(!in_group_, name(), ": GroupStart inside a group");
  in_group_ = true;
}

void GlooCommunicator::DeliverToItself(std::vector<Grouped>& messages) const {
  std::vector<Grouped> sends, receives;
  for (const Grouped& message : messages) {
    if (message.peer != rank()) continue;
    (message.op.kind == CommOp::Kind::kSend ? sends : receives).push_back(message);
  }
  std::erase_if(messages, [&](const Grouped& message) { return message.peer == rank(); });
  for (const Grouped& send : sends) {
    const auto receive = std::find_if(receives.begin(), receives.end(), [&](const Grouped& other) {
      return other.op.tag == send.op.tag;
    });
    TESSERA_CHECK(receive != receives.end() && receive->op.header == send.op.header, name(),
                  ": a message to itself of ", ShapeOf(send.op), ", tag ", send.op.tag,
                  " without its receive in the same group");
    const int64_t num_bytes = send.op.header.count * SizeBytes(send.op.header.dtype);
    if (num_bytes > 0) std::memcpy(receive->data, send.data, static_cast<size_t>(num_bytes));
    receives.erase(receive);
  }
  TESSERA_CHECK(receives.empty(), name(), ": a receive from itself without its send in the group");
}

std::unique_ptr<CommHandle> GlooCommunicator::GroupEndAsync() {
  TESSERA_CHECK(in_group_, name(), ": GroupEnd without GroupStart");
  in_group_ = false;
  const BlockedTimer timer(blocked_s_);
  std::vector<Grouped> messages = std::exchange(grouped_, {});
  DeliverToItself(messages);
  // Receives first: a send that finds its receive posted needs no question before it.
  std::stable_partition(messages.begin(), messages.end(), [](const Grouped& message) {
    return message.op.kind == CommOp::Kind::kReceive;
  });
  std::vector<std::unique_ptr<CommHandle>> handles;
  for (const Grouped& message : messages) {
    handles.push_back(std::make_unique<MessageHandle>(*this, message));
  }
  return std::make_unique<GroupHandle>(std::move(handles));
}

std::unique_ptr<Communicator> GlooCommunicator::Split(int color, int key, const std::string& name) {
  GlooWorld& world = group_->world();
  const GlooSplitRequest mine = {
      .color = color, .key = key, .world_rank = world.rank(), .rank = rank()};
  std::vector<GlooSplitRequest> requests(static_cast<size_t>(size()));
  const CollectiveHeader header = {.kind = CollectiveKind::kSplit, .count = sizeof(mine)};
  Post(header, &mine, requests.data())->Wait();
  GlooGroupInfo info = {.name = name,
                        .id = base::Concat(group_->info().id, '/', num_splits_++, ':', color)};
  if (color < 0) return nullptr;
  std::sort(requests.begin(), requests.end(),
            [](const GlooSplitRequest& a, const GlooSplitRequest& b) {
              return std::tie(a.key, a.rank) < std::tie(b.key, b.rank);
            });
  for (const GlooSplitRequest& request : requests) {
    if (request.color != color) continue;
    if (request.world_rank == world.rank()) info.rank = static_cast<int>(info.world_ranks.size());
    info.world_ranks.push_back(request.world_rank);
  }
  const BlockedTimer timer(blocked_s_);
  auto group = std::make_unique<GlooGroup>(world, std::move(info));
  return std::unique_ptr<Communicator>(new GlooCommunicator(std::move(group)));
}

void GlooCommunicator::Abort(const std::string& reason) { group_->world().Fail(reason); }

void GlooCommunicator::BeginStep(int64_t step) { group_->world().activity().set_step(step); }

bool HasProcessWorld() { return true; }

std::unique_ptr<ProcessCommunicator> JoinProcessWorld(const ProcessRank& process,
                                                      const MeetingPlace& place,
                                                      const ProcessWorldOptions& options) {
  return std::make_unique<GlooCommunicator>(std::make_unique<GlooWorld>(process, place, options));
}

}  // namespace tessera::engine
