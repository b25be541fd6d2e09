#include "tests/cuda_emulation/execution/block_runner.h"

#include <bit>
#include <exception>
#include <utility>

#include "tests/cuda_emulation/execution/deadlock.h"
#include "tests/cuda_emulation/execution/symbols.h"
#include "tests/cuda_emulation/runtime/fault.h"

// A shuffle is a few dozen instructions and a switch: what it is made of is compiled in one piece.
#define TESSERA_HOT inline __attribute__((always_inline))

namespace tessera::cuda_emulation {
namespace {

thread_local constinit BlockRunner* current_runner = nullptr;

constexpr uint32_t kWarpChangeOdds = 8;  // random order: one wait in so many changes the warp

bool IsSamePlace(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

}  // namespace

struct BlockRunner::Worker {
  explicit Worker(size_t index) : fiber(stack, index, &BlockRunner::RunFiber) {}
  FiberStack stack;
  Fiber fiber;
  Thread* thread = nullptr;
};

BlockRunner::BlockRunner() : warps_(kMaxThreadsPerBlock / kWarpSize) {}
BlockRunner::~BlockRunner() = default;

BlockRunner& BlockRunner::Current() {
  if (current_runner == nullptr) throw Fault("a device function was called outside a kernel");
  return *current_runner;
}

void BlockRunner::Begin(const KernelLaunch& launch, const ExecutionSettings& settings) {
  launch_ = &launch;
  settings_ = settings;
  blockDim = launch.block;
  gridDim = launch.grid;
  if (threads_shape_.x != launch.block.x || threads_shape_.y != launch.block.y ||
      threads_shape_.z != launch.block.z) {
    MakeThreads();
  }
}

void BlockRunner::MakeThreads() {
  threads_shape_ = launch_->block;
  threads_.clear();
  for (unsigned z = 0; z < threads_shape_.z; ++z) {
    for (unsigned y = 0; y < threads_shape_.y; ++y) {
      for (unsigned x = 0; x < threads_shape_.x; ++x) {
        const auto linear = static_cast<unsigned>(threads_.size());
        threads_.push_back({.index = {x, y, z},
                            .warp = linear / kWarpSize,
                            .lane = linear % kWarpSize,
                            .worker = nullptr,
                            .waits_at = nullptr,
                            .place = {}});
      }
    }
  }
  num_warps_ = (launch_->num_threads() + kWarpSize - 1) / kWarpSize;
}

// ---- who is next

uint32_t BlockRunner::Draw() {
  random_ += 0x9e3779b97f4a7c15u;
  uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>(z >> 32);
}

// One of the bits that are set.
TESSERA_HOT unsigned BlockRunner::Pick(uint32_t candidates) {
  switch (settings_.order) {
    case ThreadOrder::kForward:
      break;
    case ThreadOrder::kReverse:
      return kWarpSize - 1 - std::countl_zero(candidates);
    case ThreadOrder::kRandom: {
      const unsigned start = Draw() % kWarpSize;
      return (std::countr_zero(std::rotr(candidates, static_cast<int>(start))) + start) % kWarpSize;
    }
  }
  return std::countr_zero(candidates);
}

TESSERA_HOT unsigned BlockRunner::PickWarp() {
  const bool can_stay = (runnable_warps_ >> current_warp_ & 1u) != 0;
  if (settings_.order != ThreadOrder::kRandom) {
    return can_stay ? current_warp_ : Pick(runnable_warps_);
  }
  return can_stay && Draw() % kWarpChangeOdds != 0 ? current_warp_ : Pick(runnable_warps_);
}

// The worker of a thread that can run: one that was released, or one that has not begun, with an
// idle worker for it. Null where there is none.
TESSERA_HOT BlockRunner::Worker* BlockRunner::TakeNext() {
  if (runnable_warps_ == 0) return nullptr;
  current_warp_ = PickWarp();
  Warp& warp = warps_[current_warp_];
  const unsigned lane = Pick(warp.runnable());
  const uint32_t bit = 1u << lane;
  Thread& thread = threads_[current_warp_ * kWarpSize + lane];
  if ((warp.unstarted & bit) != 0) {
    if (idle_.empty()) {
      workers_.push_back(std::make_unique<Worker>(workers_.size()));
      idle_.push_back(workers_.back().get());
    }
    thread.worker = idle_.back();
    thread.worker->thread = &thread;
    idle_.pop_back();
  }
  warp.unstarted &= ~bit;
  warp.ready &= ~bit;
  if (warp.runnable() == 0) runnable_warps_ &= ~(1u << current_warp_);
  return thread.worker;
}

TESSERA_HOT void BlockRunner::MakeReady(unsigned warp, uint32_t lanes) {
  if (lanes == 0) return;
  warps_[warp].ready |= lanes;
  runnable_warps_ |= 1u << warp;
}

// Switches to a worker, or to the root where it is null.
TESSERA_HOT void BlockRunner::GoOnWith(Worker* next) {
  Fiber& from = running_ != nullptr ? running_->fiber : root_;
  running_ = next;
  Fiber::Switch(from, next != nullptr ? next->fiber : root_);
}

TESSERA_HOT void BlockRunner::Wait(const char* what, const Place& place) {
  Thread& thread = *current_;
  thread.waits_at = what;
  thread.place = place;
  Worker* next = TakeNext();
  if (next == nullptr) throw Fault(DescribeDeadlock());
  GoOnWith(next);
  thread.waits_at = nullptr;
  current_ = &thread;
  threadIdx = thread.index;
  current_lane = thread.lane;
}

// ---- blocks

void BlockRunner::RunBlock(uint3 block_index) {
  blockIdx = block_index;
  num_live_ = launch_->num_threads();
  random_ = settings_.seed * 0x9e3779b97f4a7c15u + block_index.x * 0x85ebca6bu +
            block_index.y * 0xc2b2ae35u + block_index.z + 1;
  barrier_.num_arrived = 0;
  barrier_.num_true = 0;
  for (unsigned warp = 0; warp < num_warps_; ++warp) {
    warps_[warp].Reset(num_live_ - warp * kWarpSize);
  }
  runnable_warps_ = num_warps_ == kWarpSize ? kAllLanes : (1u << num_warps_) - 1;
  current_warp_ = Pick(runnable_warps_);
  current_runner = this;
  GoOnWith(TakeNext());
  current_runner = nullptr;
  if (!fault_.empty()) {
    throw Fault("kernel " + FunctionName(launch_->function) + ", block " + IndexName(blockIdx) +
                ": " + fault_);
  }
}

// ---- fibers

void BlockRunner::RunFiber() {
  // A fiber may be resumed by another operating-system thread for a later block: what is
  // thread-local is looked up anew in each of the calls below.
  BlockRunner& runner = Current();
  for (;;) {
    runner.RunThread();
    runner.idle_.push_back(runner.running_);
    Worker* next = runner.TakeNext();
    if (next == nullptr && runner.num_live_ > 0) runner.Stop(runner.DescribeDeadlock());
    if (next != runner.running_) runner.GoOnWith(next);
  }
}

__attribute__((noinline)) void BlockRunner::RunThread() {
  Thread& thread = *running_->thread;
  current_ = &thread;
  threadIdx = thread.index;
  current_lane = thread.lane;
  std::string fault;
  try {
    launch_->call(launch_->arguments);
    ReturnThread();
  } catch (const std::exception& error) {
    fault = error.what();
  }
  if (!fault.empty()) Stop(std::move(fault));
}

void BlockRunner::ReturnThread() {
  Warp& warp = warps_[current_->warp];
  warp.live &= ~(1u << current_->lane);
  --num_live_;
  for (int i = 0; i < warp.num_meetings; ++i) {
    LaneMeeting& meeting = warp.meetings[i];
    if (meeting.arrived == 0 || meeting.arrived != (meeting.mask & warp.live)) continue;
    if (meeting.work != nullptr) {
      FailThread(std::string("returned while the other lanes wait at ") + meeting.what, {});
    }
    MakeReady(current_->warp, meeting.Release(/*last=*/0));
  }
  if (barrier_.num_arrived != 0 && barrier_.num_arrived == num_live_) ReleaseBarrier();
}

// ---- meetings

const BlockVote& BlockRunner::MeetBlock(bool predicate, const char* what, const Place& place) {
  if (barrier_.num_arrived == 0) {
    barrier_.what = what;
    barrier_.place = place;
  } else if (!IsSamePlace(barrier_.place, place)) {
    FailThread("threads of a block meet at different barriers: " + PlaceName(what, place) +
                   " and " + PlaceName(barrier_.what, barrier_.place),
               place);
  }
  ++barrier_.num_arrived;
  barrier_.num_true += predicate;
  if (barrier_.num_arrived == num_live_) {
    ReleaseBarrier();
  } else {
    warps_[current_->warp].at_barrier |= 1u << current_->lane;
    Wait(what, place);
  }
  return barrier_.vote;
}

void BlockRunner::ReleaseBarrier() {
  barrier_.vote = {.num_true = barrier_.num_true, .num_threads = barrier_.num_arrived};
  barrier_.num_arrived = 0;
  barrier_.num_true = 0;
  for (unsigned warp = 0; warp < num_warps_; ++warp) {
    MakeReady(warp, warps_[warp].at_barrier);
    warps_[warp].at_barrier = 0;
  }
}

LaneValues BlockRunner::MeetLanes(unsigned mask, uint64_t value, const char* what,
                                  const Place& place, LaneWork work) {
  Warp& warp = warps_[current_->warp];
  const unsigned lane = current_->lane;
  const uint32_t bit = 1u << lane;
  if ((mask & bit) == 0)
    FailThread(std::string(what) + ": the calling lane is not in its mask", place);
  LaneMeeting& meeting = warp.MeetingOf(mask);
  if (meeting.arrived == 0) {
    meeting.what = what;
    meeting.work = work;
  } else if (meeting.what != what && std::strcmp(meeting.what, what) != 0) {
    FailThread(std::string("lanes of one mask meet at ") + what + " and at " + meeting.what, place);
  }
  const unsigned turn = meeting.turn & 1;
  meeting.values[turn][lane] = value;
  meeting.arrived |= bit;
  if (meeting.arrived == (mask & warp.live)) {
    MakeReady(current_->warp, meeting.Release(bit));
  } else {
    Wait(what, place);
    meeting.unread &= ~bit;
  }
  return {.values = meeting.values[turn], .lanes = meeting.lanes[turn]};
}

// ---- faults

void BlockRunner::FailThread(const std::string& what, const Place& place) const {
  throw Fault("thread " + IndexName(current_->index) + ": " + what +
              (place.line() != 0 ? ", " + PlaceName("at", place) : ""));
}

// Leaves all fibers where they are: what is on their stacks is never unwound.
void BlockRunner::Stop(std::string message) {
  fault_ = std::move(message);
  GoOnWith(nullptr);
  std::terminate();  // nobody resumes this fiber
}

std::string BlockRunner::DescribeDeadlock() const {
  DeadlockReport report;
  for (const Thread& thread : threads_) {
    const Warp& warp = warps_[thread.warp];
    if ((warp.live >> thread.lane & 1u) != 0) {
      report.AddWaiting(thread.index, thread.waits_at, thread.place);
    } else {
      report.AddReturned();
    }
  }
  return report.ToString();
}

// ---- what kernels call

const BlockVote& MeetBlock(bool predicate, const char* what, Place place) {
  return BlockRunner::Current().MeetBlock(predicate, what, place);
}
LaneValues MeetLanes(unsigned mask, uint64_t value, const char* what, Place place, LaneWork work) {
  return BlockRunner::Current().MeetLanes(mask, value, what, place, work);
}
unsigned LiveLanes() { return BlockRunner::Current().LiveLanes(); }
void FailKernel(const std::string& what, Place place) {
  BlockRunner::Current().FailThread(what, place);
}

}  // namespace tessera::cuda_emulation
