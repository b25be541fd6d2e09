#include "engine/comm/nccl_group.h"

#include <exception>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "engine/comm/nccl_error.h"
#include "kernels/cuda/captured_graph.h"
#include "kernels/cuda/cuda_error.h"

namespace tessera::engine {
namespace {

constexpr size_t kScratchBytesPerRank = 16;
// How long an abort waits for a call of NCCL to return: one that hangs ends by the abort itself.
constexpr std::chrono::seconds kAbortGrace{1};

std::string RanksHaveNotPosted(const std::vector<int>& ranks) {
  if (ranks.empty()) return "every rank of this process has posted it";
  std::string list;
  for (const int rank : ranks) list += base::Concat(list.empty() ? "" : ", ", rank);
  return ranks.size() == 1 ? base::Concat("rank ", list, " has not posted it")
                           : base::Concat("ranks ", list, " have not posted it");
}

}  // namespace

NcclGroup::NcclGroup(
    NcclWorld& world, NcclGroupInfo info,
    const std::function<ncclResult_t(const char* name, ncclComm_t* comm)>& make_comm)
    : world_(world),
      info_(std::move(info)),
      // Messages are short beside the kernels that they must not wait behind.
      stream_(kernels::cuda::StreamPriority::kHigh) {
  if (size() == 1) return;
  scratch_.emplace(kScratchBytesPerRank * (info_.world_ranks.size() + 1));
  CheckNccl(make_comm(info_.name.c_str(), &comm_),
            base::Concat(world_.Describe(), ": making the communicator ", info_.name));
  num_posted_ = &world_.job().CounterOf(info_.id, world_.rank());
  world_.Add(*this);
}

NcclGroup::~NcclGroup() {
  if (size() == 1) return;
  if (std::uncaught_exceptions() > 0) {
    world_.Fail(base::Concat(world_.Describe(), ": failed, and left ", info_.name));
  }
  // Under the eyes of the watchdog, which ends what hangs.
  if (!world_.failed()) cudaStreamSynchronize(stream_.get());
  world_.Remove(*this);
  if (comm_ == nullptr) return;
  if (world_.failed()) {
    ncclCommAbort(comm_);
  } else {
    ncclCommDestroy(comm_);
  }
}

NcclGroup::Done NcclGroup::Post(const char* what, const Enqueue& enqueue) {
  world_.ThrowIfFailed(what, info_.name);
  const bool is_captured = kernels::cuda::IsCapturing(world_.compute_stream());
  compute_so_far_.Record(world_.compute_stream());
  compute_so_far_.MakeWait(stream_.get());
  const int64_t number = is_captured ? num_posted_->load() : Begin(what);
  CallNccl(what, number, [&](ncclComm_t comm) { return enqueue(comm, stream_.get()); });
  // The host cannot ask for an event of a capture.
  const auto done = is_captured ? std::make_shared<kernels::cuda::Event>() : TakeEvent();
  done->Record(stream_.get());
  if (is_captured) {
    is_in_graph_ = true;
  } else {
    End(number, done);
  }
  return done;
}

void NcclGroup::FollowLaunch() {
  if (!is_in_graph_) return;
  const int64_t number = Begin("graph");
  auto done = TakeEvent();
  done->Record(world_.compute_stream());
  End(number, std::move(done));
}

void NcclGroup::MakeComputeWait(const char* what, const kernels::cuda::Event& done) const {
  world_.ThrowIfFailed(what, info_.name);
  done.MakeWait(world_.compute_stream());
}

void NcclGroup::Call(const char* what, const std::function<ncclResult_t(ncclComm_t comm)>& call) {
  world_.ThrowIfFailed(what, info_.name);
  const int64_t number = Begin(what);
  CallNccl(what, number, call);
  End(number, nullptr);
}

void NcclGroup::CallNccl(const char* what, int64_t number,
                         const std::function<ncclResult_t(ncclComm_t comm)>& call) {
  ncclResult_t result = ncclSuccess;
  std::string message;
  {
    const std::lock_guard calling(call_mutex_);
    world_.ThrowIfFailed(what, info_.name);  // then comm_ may be gone
    result = call(comm_);
    if (result == ncclSuccess) return;
    message = world_.failed() ? "" : NcclMessage(result, comm_);
  }
  world_.ThrowIfFailed(what, info_.name);  // the call ended because it was aborted
  const std::string reason = base::Concat(Describe(what, number), ": ", message);
  world_.Fail(reason);
  throw base::CommError(reason);
}

int64_t NcclGroup::Begin(const char* what) {
  const std::lock_guard lock(mutex_);
  in_flight_.push_back({what, num_posted_->load(), Clock::now(), nullptr});
  return num_posted_->fetch_add(1);
}

std::shared_ptr<kernels::cuda::Event> NcclGroup::TakeEvent() {
  const std::lock_guard lock(mutex_);
  if (free_events_.empty()) return std::make_shared<kernels::cuda::Event>();
  auto event = std::move(free_events_.back());
  free_events_.pop_back();
  return event;
}

void NcclGroup::End(int64_t number, std::shared_ptr<kernels::cuda::Event> done) {
  const std::lock_guard lock(mutex_);
  TESSERA_CHECK(!in_flight_.empty() && in_flight_.back().number == number, info_.name,
                ": operation #", number, " is not the last");
  if (done == nullptr) {
    in_flight_.pop_back();
  } else {
    in_flight_.back().done = std::move(done);
  }
}

std::optional<std::string> NcclGroup::Problem() {
  const std::lock_guard lock(mutex_);
  while (!in_flight_.empty() && in_flight_.front().done && in_flight_.front().done->IsOver()) {
    // Whoever waits for the operation may still hold its event.
    if (in_flight_.front().done.use_count() == 1) {
      free_events_.push_back(std::move(in_flight_.front().done));
    }
    in_flight_.pop_front();
    if (!in_flight_.empty()) in_flight_.front().since = Clock::now();
  }
  ncclResult_t error = ncclSuccess;
  ncclCommGetAsyncError(comm_, &error);
  if (error != ncclSuccess && error != ncclInProgress) {
    const std::string where = in_flight_.empty()
                                  ? base::Concat(world_.Describe(), ": ", info_.name)
                                  : Describe(in_flight_.front().what, in_flight_.front().number);
    return base::Concat(where, ": ", NcclMessage(error, comm_));
  }
  if (in_flight_.empty()) return std::nullopt;
  const InFlight& first = in_flight_.front();
  const std::chrono::duration<double> waited = Clock::now() - first.since;
  if (waited.count() < world_.timeout_s()) return std::nullopt;
  return base::Concat(
      Describe(first.what, first.number), " timed out after ", world_.timeout_s(), " s; ",
      RanksHaveNotPosted(world_.job().RanksBehind(info_.id, info_.world_ranks, first.number)));
}

void NcclGroup::Abort() {
  std::unique_lock calling(call_mutex_, kAbortGrace);
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  if (comm != nullptr) ncclCommAbort(comm);
}

std::string NcclGroup::Describe(const char* what, int64_t number) const {
  return base::Concat(world_.Describe(), ": ", what, " #", number, " of ", info_.name);
}

}  // namespace tessera::engine
