#include "engine/comm/gloo_communicator.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "engine/comm/gloo_collectives.h"
#include "engine/comm/lone_handle.h"
#include "engine/comm/process_world.h"
#include "engine/comm/transfers.h"

namespace tessera::engine {
namespace {

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
  base::DType dtype = base::DType::kUInt8;
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
    const BlockedTimer timer = comm_.TimeBlocked();
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
  MessageHandle(GlooCommunicator& comm, const Call& call)
      : comm_(comm), call_(call), transfers_(Transfers::Make(*comm.group_, call_.op)) {
    const CollectiveHeader& header = call_.op.header;
    mine_ = other_ = {.count = header.count, .dtype = header.dtype};
    const uint64_t slot = SlotOf(Traffic::kMessage, call_.op);
    const uint64_t header_slot = SlotOf(Traffic::kMessageHeader, call_.op);
    const int64_t num_bytes = header.count * SizeBytes(header.dtype);
    const bool has_header = world().options().checks_calls;
    if (call_.op.kind == CommOp::Kind::kSend) {
      if (has_header) transfers_->Send(&mine_, sizeof(mine_), call_.peer, header_slot);
      transfers_->Send(call_.input, num_bytes, call_.peer, slot);
    } else {
      if (has_header) transfers_->Receive(&other_, sizeof(other_), call_.peer, header_slot);
      transfers_->Receive(call_.output, num_bytes, call_.peer, slot);
    }
  }
  ~MessageHandle() override {
    if (!waited_) world().GiveUp(Describe() + " was given up");
  }
  void Wait() override {
    if (std::exchange(waited_, true)) return;
    const BlockedTimer timer = comm_.TimeBlocked();
    GlooWorld::Wait wait(world(), comm_.group_->info(), call_.op);
    transfers_->Await(wait, 0);  // the header, where there is one
    if (mine_.count != other_.count || mine_.dtype != other_.dtype) ThrowMismatch();
    transfers_->AwaitAll(wait);
    comm_.activity().End(call_.record);
  }

 private:
  GlooWorld& world() const { return comm_.group_->world(); }
  std::string Describe() const { return world().Describe(comm_.group_->info(), call_.op); }
  [[noreturn]] void ThrowMismatch() const {
    const std::string reason =
        base::Concat(Describe(), ": ", ShapeOf(call_.op), " here, ", other_.count, ' ',
                     base::ToString(other_.dtype), " there");
    world().Fail(reason);
    throw base::CommError(reason);
  }

  GlooCommunicator& comm_;
  const Call call_;
  const std::unique_ptr<Transfers> transfers_;
  MessageHeader mine_;
  MessageHeader other_;
  bool waited_ = false;
};

GlooCommunicator::GlooCommunicator(std::unique_ptr<GlooGroup> group,
                                   std::unique_ptr<GlooWorld> world)
    : HostCommunicator(group->world().activity(), group->info().activity),
      world_(std::move(world)),
      group_(std::move(group)) {}

GlooCommunicator::~GlooCommunicator() {
  if (world_ != nullptr) world_->Leave();
}

std::unique_ptr<CommHandle> GlooCommunicator::PostCollective(const Call& call) {
  const auto run = [this, input = call.input, output = call.output](GlooWorld::Wait& wait,
                                                                    const CommOp& op) {
    RunGlooCollective(*group_, wait, op, input, output);
  };
  return std::make_unique<CollectiveHandle>(*this, group_->Post(call.op, call.record, run));
}

std::unique_ptr<CommHandle> GlooCommunicator::PostMessage(const Call& call) {
  TESSERA_CHECK(call.peer != rank(), name(), ": a message to itself outside a group");
  return std::make_unique<MessageHandle>(*this, call);
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
  const BlockedTimer timer = TimeBlocked();
  return std::make_unique<GlooCommunicator>(std::make_unique<GlooGroup>(world, std::move(info)));
}

void GlooCommunicator::Abort(const std::string& reason) { group_->world().Fail(reason); }

bool HasProcessWorld() { return true; }

std::unique_ptr<Communicator> JoinProcessWorld(const ProcessRank& process,
                                               const MeetingPlace& place,
                                               const ProcessWorldOptions& options) {
  auto world = std::make_unique<GlooWorld>(process, place, options);
  auto group = std::make_unique<GlooGroup>(*world, InfoOfAll(*world));
  return std::make_unique<GlooCommunicator>(std::move(group), std::move(world));
}

}  // namespace tessera::engine
