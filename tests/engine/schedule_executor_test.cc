#include "engine/pipeline/schedule_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

using spec::Action;
using spec::ActionKind;
using spec::PipelineSchedule;
using ::testing::ElementsAre;

// A transport in which no transfer completes before its counterpart is posted. Carries one number a
// message.
class RendezvousTransport {
 public:
  explicit RendezvousTransport(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  void Post(const Action& transfer, int64_t message) {
    const std::scoped_lock lock(mutex_);
    posted_[Key(transfer)] = message;
    changed_.notify_all();
  }

  // The number that the counterpart was posted with.
  int64_t WaitForCounterpart(const Action& transfer) {
    std::unique_lock lock(mutex_);
    const auto key = Key(spec::CounterpartOf(transfer));
    if (!changed_.wait_for(lock, timeout_, [&] { return posted_.contains(key); })) {
      throw std::runtime_error("stuck in " + spec::ToString(transfer));
    }
    return posted_.at(key);
  }

 private:
  static std::tuple<ActionKind, int, int> Key(const Action& action) {
    return {action.kind, action.virtual_stage, action.microbatch};
  }

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<ActionKind, int, int>, int64_t> posted_;
};

// Counts the virtual stages that a micro-batch has passed, forward up and backward down, so that a
// message for another micro-batch or stage is noticed.
class CountingRunner : public StageRunner {
 public:
  explicit CountingRunner(RendezvousTransport& transport) : transport_(transport) {}

  size_t Mark() override { return num_marks_++; }
  void Forward(const Action& action) override {
    executed_.push_back(action);
    int64_t& value = forward_[{action.virtual_stage, action.microbatch}];
    if (action.virtual_stage == 0) value = FirstValue(action.microbatch);
    ++value;
    EXPECT_EQ(value, FirstValue(action.microbatch) + action.virtual_stage + 1);
  }

  void Backward(const Action& action) override {
    executed_.push_back(action);
    // The last virtual stage turns its own result round.
    int64_t& value = backward_[{action.virtual_stage, action.microbatch}];
    if (value == 0) value = forward_.at({action.virtual_stage, action.microbatch}) + 1;
    --value;
    EXPECT_EQ(value, FirstValue(action.microbatch) + action.virtual_stage + 1);
  }

  void BackwardInput(const Action& action) override { Backward(action); }

  // Every micro-batch's weights in their turn, after its inputs.
  void BackwardWeight(const Action& action) override {
    executed_.push_back(action);
    EXPECT_TRUE(backward_.contains({action.virtual_stage, action.microbatch}));
    EXPECT_EQ(action.microbatch, num_weight_passes_++);
  }

  void Exchange(std::span<const Action> transfers) override {
    for (const Action& transfer : transfers) {
      executed_.push_back(transfer);
      const std::pair<int, int> key{transfer.virtual_stage, transfer.microbatch};
      int64_t message = 0;
      if (transfer.kind == ActionKind::kSendForward) message = forward_.at(key);
      if (transfer.kind == ActionKind::kSendBackward) message = backward_.at(key);
      transport_.Post(transfer, message);
    }
    for (const Action& transfer : transfers) {
      const std::pair<int, int> key{transfer.virtual_stage, transfer.microbatch};
      const int64_t message = transport_.WaitForCounterpart(transfer);
      if (transfer.kind == ActionKind::kRecvForward) forward_[key] = message;
      if (transfer.kind == ActionKind::kRecvBackward) backward_[key] = message;
    }
  }

  bool AwaitInput(const Action& /*pass*/) override { return false; }
  bool AwaitAll() override { return false; }
  int64_t HeldBytes() const override { return 0; }

  const std::vector<Action>& executed() const { return executed_; }

 private:
  static int64_t FirstValue(int microbatch) { return 1000 * (microbatch + 1); }

  RendezvousTransport& transport_;
  std::vector<Action> executed_;
  std::map<std::pair<int, int>, int64_t> forward_;
  std::map<std::pair<int, int>, int64_t> backward_;
  size_t num_marks_ = 0;
  int num_weight_passes_ = 0;
};

struct PipelineRun {
  std::vector<std::vector<Action>> executed;
  std::vector<MarkedTimeline> timelines;  // by stage
  std::vector<std::string> failures;
};

// Every stage in its own thread.
PipelineRun RunOnThreads(const PipelineSchedule& schedule, std::chrono::milliseconds timeout) {
  RendezvousTransport transport(timeout);
  std::vector<CountingRunner> runners(schedule.num_stages, CountingRunner(transport));
  PipelineRun run;
  run.timelines.resize(schedule.num_stages);
  std::vector<std::string> failures(schedule.num_stages);
  {
    std::vector<std::jthread> stages;
    for (int stage = 0; stage < schedule.num_stages; ++stage) {
      stages.emplace_back([&, stage] {
        try {
          run.timelines[stage] = ExecuteSchedule(schedule.actions_by_stage[stage], runners[stage]);
        } catch (const std::runtime_error& error) {
          failures[stage] = error.what();
        }
      });
    }
  }
  for (const std::string& failure : failures) {
    if (!failure.empty()) run.failures.push_back(failure);
  }
  for (const CountingRunner& runner : runners) run.executed.push_back(runner.executed());
  return run;
}

std::vector<PipelineSchedule> EveryGenerator() {
  std::vector<PipelineSchedule> schedules;
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 2, 4, 9}) {
      schedules.push_back(spec::MakeGPipe(p, m));
      schedules.push_back(spec::MakeOneForwardOneBackward(p, m));
      schedules.push_back(spec::MakeZeroBubbleH1(p, m));
    }
  }
  for (const int p : {2, 3, 4, 8}) {
    for (const int v : {2, 3}) {
      for (const int groups : {1, 2, 3}) {
        schedules.push_back(spec::MakeInterleaved({p, v, groups * p}));
        schedules.push_back(spec::MakeInterleaved({p, v, groups * (p + 2) + p, p + 2}));
      }
    }
  }
  return schedules;
}

TEST(ScheduleExecutorTest, ExecutesExactlyTheScheduleEvenWhenSendsBlock) {
  for (const PipelineSchedule& schedule : EveryGenerator()) {
    const std::string shape =
        base::Concat(spec::ToString(schedule.kind), " p=", schedule.num_stages,
                     " v=", schedule.num_chunks, " m=", schedule.num_microbatches);
    const PipelineRun run = RunOnThreads(schedule, std::chrono::seconds(20));
    EXPECT_THAT(run.failures, ElementsAre()) << shape;
    EXPECT_EQ(run.executed, schedule.actions_by_stage) << shape;
    for (int stage = 0; stage < schedule.num_stages; ++stage) {
      std::vector<Action> measured;
      for (const auto& marked : run.timelines[stage].actions) measured.push_back(marked.action);
      EXPECT_EQ(measured, schedule.actions_by_stage[stage]) << shape;
    }
  }
}

// Shows that the transport above does block, so that the test before it means something.
TEST(ScheduleExecutorTest, SendsOneByOneGetStuck) {
  PipelineSchedule schedule = spec::MakeOneForwardOneBackward(2, 3);
  for (std::vector<Action>& actions : schedule.actions_by_stage) {
    int exchange = 0;
    for (Action& action : actions) {
      if (spec::IsTransfer(action.kind)) action.exchange = exchange++;
    }
  }
  const PipelineRun run = RunOnThreads(schedule, std::chrono::milliseconds(300));
  EXPECT_THAT(run.failures, ElementsAre("stuck in 0SF1", "stuck in 1SB0"));
}

// Notes the size of each call.
class CallRecorder : public StageRunner {
 public:
  void Forward(const Action& action) override { Note({&action, 1}); }
  void Backward(const Action& action) override { Note({&action, 1}); }
  void BackwardInput(const Action& action) override { Note({&action, 1}); }
  void BackwardWeight(const Action& action) override { Note({&action, 1}); }
  void Exchange(std::span<const Action> transfers) override { Note(transfers); }
  bool AwaitInput(const Action& pass) override { return pass.kind == waits_before_; }
  bool AwaitAll() override { return waits_before_.has_value(); }
  size_t Mark() override { return num_marks_++; }
  int64_t HeldBytes() const override { return static_cast<int64_t>(calls_.size()); }
  const std::vector<std::string>& calls() const { return calls_; }
  std::optional<ActionKind> waits_before_;  // has exchanges under way

 private:
  void Note(std::span<const Action> call) {
    calls_.push_back(spec::ToString(std::vector<Action>(call.begin(), call.end())));
  }
  std::vector<std::string> calls_;
  size_t num_marks_ = 0;
};

TEST(ScheduleExecutorTest, AnExchangeIsOneCall) {
  CallRecorder recorder;
  ExecuteSchedule(spec::MakeOneForwardOneBackward(2, 2).actions_by_stage[0], recorder);
  EXPECT_THAT(recorder.calls(),
              ElementsAre("0F0", "0SF0", "0F1", "[0SF1 0RB0]", "0B0", "0RB1", "0B1"));
}

TEST(ScheduleExecutorTest, NotesWhatIsHeldBeforeTheFirstAndAfterEachPass) {
  CallRecorder recorder;  // holds a byte for each call so far
  const MarkedTimeline timeline =
      ExecuteSchedule(spec::MakeOneForwardOneBackward(2, 2).actions_by_stage[0], recorder);
  std::vector<int64_t> held;
  for (const auto& sample : timeline.memory) held.push_back(sample.num_bytes);
  EXPECT_THAT(held, ElementsAre(0, 1, 3, 5, 7));
}

// Stage 0 of two runs 0F0 0SF0 0F1 [0SF1 0RB0] 0B0 0RB1 0B1: a mark before the first call and one
// after each.
TEST(ScheduleExecutorTest, EachCallIsMarkedWhereTheOneBeforeItEnds) {
  CallRecorder recorder;
  const MarkedTimeline timeline =
      ExecuteSchedule(spec::MakeOneForwardOneBackward(2, 2).actions_by_stage[0], recorder);
  std::vector<std::pair<size_t, size_t>> marks;
  for (const auto& marked : timeline.actions) marks.emplace_back(marked.begin, marked.end);
  using Span = std::pair<size_t, size_t>;
  EXPECT_THAT(marks, ElementsAre(Span{0, 1}, Span{1, 2}, Span{2, 3}, Span{3, 4}, Span{3, 4},
                                 Span{4, 5}, Span{5, 6}, Span{6, 7}));
}

// 0F0 0SF0 0F1 [0SF1 0RB0] 0B0 0RB1 0B1 again, with a wait before each backward pass and one at the
// end.
TEST(ScheduleExecutorTest, WaitsForExchangesUnderWayAreMarkedApart) {
  CallRecorder recorder;
  recorder.waits_before_ = ActionKind::kBackward;
  const MarkedTimeline timeline =
      ExecuteSchedule(spec::MakeOneForwardOneBackward(2, 2).actions_by_stage[0], recorder);
  using Span = std::pair<size_t, size_t>;
  std::vector<Span> waits;
  for (const MarkedSpan& wait : timeline.waits) waits.emplace_back(wait.begin, wait.end);
  EXPECT_THAT(waits, ElementsAre(Span{4, 5}, Span{7, 8}, Span{9, 10}));
  EXPECT_EQ(timeline.actions.back().begin, 8U);
  EXPECT_EQ(timeline.actions.back().end, 9U);
}

class FailingRunner : public CallRecorder {
 public:
  void Backward(const Action&) override { throw std::runtime_error("out of memory"); }
};

TEST(ScheduleExecutorTest, AnErrorOfTheRunnerEndsTheSchedule) {
  FailingRunner runner;
  EXPECT_THROW(ExecuteSchedule(spec::MakeGPipe(1, 2).actions_by_stage[0], runner),
               std::runtime_error);
  EXPECT_THAT(runner.calls(), ElementsAre("0F0", "0F1"));
}

TEST(ScheduleExecutorTest, ATransferOutsideAnExchangeIsABug) {
  CallRecorder recorder;
  EXPECT_THROW(ExecuteSchedule({{ActionKind::kSendForward, 0, 0}}, recorder), base::CheckFailure);
}

}  // namespace
}  // namespace tessera::engine
