#include "cost_model/spec/pipeline_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/base/error.h"

namespace tessera::spec {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The passes of one stage without its transfers.
std::string Passes(const PipelineSchedule& schedule, int stage) {
  std::vector<Action> passes;
  for (const Action& action : schedule.actions_by_stage[stage]) {
    if (!IsTransfer(action.kind)) passes.push_back(action);
  }
  return ToString(passes);
}

std::vector<PipelineSchedule> ManySchedules() {
  std::vector<PipelineSchedule> schedules;
  for (const int p : {1, 2, 3, 4, 5, 8}) {
    for (const int m : {1, 2, 3, 4, 7, 8, 16, 33}) {
      schedules.push_back(MakeGPipe(p, m));
      schedules.push_back(MakeOneForwardOneBackward(p, m));
      schedules.push_back(MakeZeroBubbleH1(p, m));
    }
  }
  for (int p = 2; p <= 8; ++p) {
    for (int v = 2; v <= 4; ++v) {
      for (const int groups : {1, 2, 3, 5}) {
        schedules.push_back(MakeInterleaved({p, v, groups * p}));
      }
    }
  }
  return schedules;
}

std::string Describe(const PipelineSchedule& s) {
  return base::Concat(ToString(s.kind), " p=", s.num_stages, " v=", s.num_chunks,
                      " m=", s.num_microbatches);
}

TEST(PipelineScheduleTest, EveryGeneratorIsValid) {
  for (const PipelineSchedule& schedule : ManySchedules()) {
    EXPECT_THAT(ValidateSchedule(schedule), IsEmpty()) << Describe(schedule);
  }
}

// Narayanan et al. 2021, Fig. 4 (top), micro-batches counted from zero.
TEST(PipelineScheduleTest, OneForwardOneBackwardFollowsTheFigure) {
  const PipelineSchedule schedule = MakeOneForwardOneBackward(4, 8);
  EXPECT_EQ(Passes(schedule, 0), "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7");
  EXPECT_EQ(Passes(schedule, 2), "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7");
  EXPECT_EQ(Passes(schedule, 3), "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7");
}

TEST(PipelineScheduleTest, SteadyOneForwardOneBackwardExchangesInPairs) {
  const PipelineSchedule schedule = MakeOneForwardOneBackward(2, 3);
  EXPECT_EQ(ToString(schedule.actions_by_stage[0]),
            "0F0 0SF0 0F1 [0SF1 0RB0] 0B0 0F2 [0SF2 0RB1] 0B1 0RB2 0B2");
  EXPECT_EQ(ToString(schedule.actions_by_stage[1]),
            "1RF0 1F0 1B0 [1SB0 1RF1] 1F1 1B1 [1SB1 1RF2] 1F2 1B2 1SB2");
}

TEST(PipelineScheduleTest, GPipeRunsAllForwardsFirst) {
  const PipelineSchedule schedule = MakeGPipe(3, 2);
  EXPECT_EQ(ToString(schedule.actions_by_stage[1]),
            "1RF0 1F0 1SF0 1RF1 1F1 1SF1 1RB0 1B0 1SB0 1RB1 1B1 1SB1");
}

// Qi et al. 2023, Fig. 2 (top): one forward, one backward, with the weight passes of stage s put
// off by s micro-batches and the rest of them at the end.
TEST(PipelineScheduleTest, ZeroBubbleH1FollowsTheFigure) {
  const PipelineSchedule schedule = MakeZeroBubbleH1(4, 8);
  EXPECT_EQ(Passes(schedule, 0),
            "0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0F5 0I2 0W2 0F6 0I3 0W3 0F7 0I4 0W4 "
            "0I5 0W5 0I6 0W6 0I7 0W7");
  EXPECT_EQ(Passes(schedule, 3),
            "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3F5 3I5 3W2 3F6 3I6 3W3 3F7 3I7 3W4 "
            "3W5 3W6 3W7");
}

// The gradient leaves before the weight pass, and the next activation is fetched after it.
TEST(PipelineScheduleTest, ZeroBubbleH1SendsBeforeItsWeightPasses) {
  const PipelineSchedule schedule = MakeZeroBubbleH1(2, 3);
  EXPECT_EQ(ToString(schedule.actions_by_stage[0]),
            "0F0 0SF0 0F1 [0SF1 0RB0] 0I0 0W0 0F2 [0SF2 0RB1] 0I1 0W1 0RB2 0I2 0W2");
  EXPECT_EQ(ToString(schedule.actions_by_stage[1]),
            "1RF0 1F0 1I0 1SB0 1RF1 1F1 1I1 1SB1 1W0 1RF2 1F2 1I2 1SB2 1W1 1W2");
}

// The same paper, section 2.2: every stage holds the p micro-batches that the first stage of 1F1B
// holds, counting those that wait for their weight pass.
TEST(PipelineScheduleTest, ZeroBubbleH1HoldsNoMoreMicrobatchesThanOneForwardOneBackward) {
  for (const int p : {1, 2, 4, 8}) {
    const PipelineSchedule schedule = MakeZeroBubbleH1(p, 3 * p);
    for (int stage = 0; stage < p; ++stage) {
      int held = 0;
      int most = 0;
      for (const Action& action : schedule.actions_by_stage[stage]) {
        if (action.kind == ActionKind::kForward) most = std::max(most, ++held);
        if (action.kind == ActionKind::kBackwardWeight) --held;
      }
      EXPECT_EQ(most, p) << "stage " << stage;
      EXPECT_THAT(MaxInFlight(schedule, stage), ElementsAre(p - stage));
    }
  }
}

TEST(PipelineScheduleTest, OneStageTransfersNothing) {
  EXPECT_EQ(ToString(MakeOneForwardOneBackward(1, 2).actions_by_stage[0]), "0F0 0B0 0F1 0B1");
  EXPECT_EQ(ToString(MakeGPipe(1, 2).actions_by_stage[0]), "0F0 0F1 0B0 0B1");
}

// Narayanan et al. 2021, Fig. 4 (bottom): chunk c of device r is virtual stage 4 c + r.
TEST(PipelineScheduleTest, InterleavedFollowsTheFigure) {
  const PipelineSchedule schedule = MakeInterleaved({4, 2, 8});
  EXPECT_EQ(Passes(schedule, 0),
            "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 "
            "0F6 4B0 0F7 4B1 4F4 4B2 4F5 4B3 4F6 0B0 4F7 0B1 "
            "0B2 0B3 4B4 4B5 4B6 4B7 0B4 0B5 0B6 0B7");
  EXPECT_EQ(Passes(schedule, 3),
            "3F0 3F1 3F2 3F3 "
            "7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 3F4 3B0 3F5 3B1 3F6 3B2 3F7 3B3 "
            "7F4 7B4 7F5 7B5 7F6 7B6 7F7 7B7 3B4 3B5 3B6 3B7");
}

// Worked out by hand from Megatron-LM's rule: (p - 1 - r) * 2 + (v - 1) * p forward passes first.
TEST(PipelineScheduleTest, InterleavedExchangesAfterEveryTurn) {
  const PipelineSchedule schedule = MakeInterleaved({2, 2, 2});
  EXPECT_EQ(ToString(schedule.actions_by_stage[0]),
            "0F0 0SF0 0F1 [0SF1 2RF0] 2F0 [2SF0 2RF1] 2F1 [2SF1 2RB0] "
            "2B0 [2SB0 2RB1] 2B1 [2SB1 0RB0] 0B0 0RB1 0B1");
  EXPECT_EQ(ToString(schedule.actions_by_stage[1]),
            "1RF0 1F0 [1SF0 1RF1] 1F1 [1SF1 3RF0] 3F0 3B0 [3SB0 3RF1] 3F1 3B1 [3SB1 1RB0] "
            "1B0 [1SB0 1RB1] 1B1 1SB1");
}

// The closed form behind DeepSpeed's train schedule: in 2 (m + p - 1) ticks, the parities of tick
// and stage tell forward from backward.
TEST(PipelineScheduleTest, OneForwardOneBackwardEqualsTheClosedForm) {
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {1, 2, 5, 8, 17}) {
      const PipelineSchedule schedule = MakeOneForwardOneBackward(p, m);
      for (int stage = 0; stage < p; ++stage) {
        std::vector<Action> expected;
        for (int tick = 0; tick < 2 * (m + p - 1); ++tick) {
          const bool is_forward = tick % 2 == stage % 2;
          // A micro-batch reaches the stage after `stage` ticks and comes back 2p - 1 - stage
          // ticks after it entered, entries being two ticks apart.
          const int since_entry = is_forward ? tick - stage : tick - (2 * p - 1 - stage);
          if (since_entry < 0 || since_entry / 2 >= m) continue;
          expected.push_back(
              {is_forward ? ActionKind::kForward : ActionKind::kBackward, stage, since_entry / 2});
        }
        EXPECT_EQ(Passes(schedule, stage), ToString(expected)) << Describe(schedule);
      }
    }
  }
}

TEST(PipelineScheduleTest, BackwardPassesAscendOnEveryVirtualStage) {
  for (const PipelineSchedule& schedule : ManySchedules()) {
    std::vector<int> next(schedule.num_stages * schedule.num_chunks, 0);
    for (const auto& actions : schedule.actions_by_stage) {
      for (const Action& action : actions) {
        const bool starts_backward =
            action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
        if (!starts_backward) continue;
        EXPECT_EQ(action.microbatch, next[action.virtual_stage]++) << Describe(schedule);
      }
    }
  }
}

TEST(PipelineScheduleTest, OneForwardOneBackwardKeepsItsMemoryPromise) {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 3, 8, 20}) {
      const PipelineSchedule schedule = MakeOneForwardOneBackward(p, m);
      for (int stage = 0; stage < p; ++stage) {
        EXPECT_THAT(MaxInFlight(schedule, stage), ElementsAre(std::min(p - stage, m)));
        EXPECT_THAT(MaxInFlight(MakeGPipe(p, m), stage), ElementsAre(m));
      }
    }
  }
}

// Counted by hand in the figure of p = 4, v = 2, m = 8 above.
TEST(PipelineScheduleTest, InterleavedKeepsMoreInFlightOnEarlyStages) {
  const PipelineSchedule schedule = MakeInterleaved({4, 2, 8});
  EXPECT_THAT(MaxInFlight(schedule, 0), ElementsAre(8, 4));
  EXPECT_THAT(MaxInFlight(schedule, 3), ElementsAre(5, 1));
}

// Korthikanti et al. 2022, section 4.2.3: interleaving keeps 1 + (p - 1) / (p v) times the p
// micro-batches of the first stage, that is p v + p - 1 chunk passes.
TEST(PipelineScheduleTest, FirstInterleavedStageHoldsThePublishedNumberOfChunkPasses) {
  for (int p = 2; p <= 8; ++p) {
    for (int v = 2; v <= 4; ++v) {
      const PipelineSchedule schedule = MakeInterleaved({p, v, 4 * p});
      int in_flight = 0;
      int most = 0;
      for (const Action& action : schedule.actions_by_stage[0]) {
        if (action.kind == ActionKind::kForward) most = std::max(most, ++in_flight);
        if (action.kind == ActionKind::kBackward) --in_flight;
      }
      EXPECT_EQ(most, p * v + p - 1) << "p=" << p << " v=" << v;
    }
  }
}

TEST(PipelineScheduleTest, CounterpartsMirrorEachOther) {
  for (const ActionKind kind : {ActionKind::kSendForward, ActionKind::kRecvForward,
                                ActionKind::kSendBackward, ActionKind::kRecvBackward}) {
    const Action action{kind, 3, 5};
    EXPECT_EQ(CounterpartOf(CounterpartOf(action)), action);
    EXPECT_NE(IsSend(kind), IsSend(CounterpartOf(action).kind));
  }
  EXPECT_EQ(CounterpartOf({ActionKind::kSendForward, 3, 5}),
            (Action{ActionKind::kRecvForward, 4, 5}));
  EXPECT_THROW(CounterpartOf({ActionKind::kForward, 3, 5}), base::CheckFailure);
}

TEST(PipelineScheduleTest, ALayoutChoosesItsGenerator) {
  ParallelSpec parallel;
  parallel.pipeline_parallel_size = 2;
  EXPECT_EQ(MakeSchedule(parallel, 4).actions_by_stage,
            MakeOneForwardOneBackward(2, 4).actions_by_stage);
  parallel.schedule = ScheduleKind::kGPipe;
  EXPECT_EQ(MakeSchedule(parallel, 4).actions_by_stage, MakeGPipe(2, 4).actions_by_stage);
  parallel.schedule = ScheduleKind::kZeroBubbleH1;
  EXPECT_EQ(MakeSchedule(parallel, 4).actions_by_stage, MakeZeroBubbleH1(2, 4).actions_by_stage);
  parallel.virtual_pipeline_size = 2;
  EXPECT_THROW(MakeSchedule(parallel, 4), base::ConfigError);
  parallel.schedule = ScheduleKind::kInterleaved;
  EXPECT_EQ(MakeSchedule(parallel, 6).actions_by_stage,
            MakeInterleaved({2, 2, 6}).actions_by_stage);
  parallel.microbatch_group_size = 3;
  parallel.overlap_pp_comm = true;
  const PipelineSchedule overlapped = MakeSchedule(parallel, 6);
  EXPECT_EQ(overlapped.actions_by_stage, MakeInterleaved({2, 2, 6, 3, true}).actions_by_stage);
  EXPECT_TRUE(overlapped.overlaps_transfers);
}

TEST(PipelineScheduleTest, ShapesAgainstTheRuleAreRefused) {
  EXPECT_THROW(MakeGPipe(0, 1), base::ConfigError);
  EXPECT_THROW(MakeOneForwardOneBackward(2, 0), base::ConfigError);
  EXPECT_THROW(MakeInterleaved({1, 2, 4}), base::ConfigError);
  EXPECT_THROW(MakeInterleaved({2, 1, 4}), base::ConfigError);
  try {
    MakeInterleaved({4, 2, 6});
    FAIL() << "six micro-batches over four stages were accepted";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("6 micro-batches in groups of 4, expected groups"));
  }
}

// The corrupted schedules: each must be noticed, and named.

std::vector<Action>::iterator Find(PipelineSchedule& schedule, int stage, const Action& wanted) {
  std::vector<Action>& actions = schedule.actions_by_stage[stage];
  return std::find_if(actions.begin(), actions.end(), [&](const Action& action) {
    return action.kind == wanted.kind && action.virtual_stage == wanted.virtual_stage &&
           action.microbatch == wanted.microbatch;
  });
}

TEST(ValidateScheduleTest, ADroppedReceiveIsNamed) {
  PipelineSchedule schedule = MakeOneForwardOneBackward(4, 8);
  schedule.actions_by_stage[2].erase(Find(schedule, 2, {ActionKind::kRecvForward, 2, 3}));
  EXPECT_THAT(ValidateSchedule(schedule), ElementsAre("stage 2: 2RF3 is missing"));
}

TEST(ValidateScheduleTest, BackwardBeforeForwardIsNamed) {
  PipelineSchedule schedule = MakeOneForwardOneBackward(4, 8);
  std::swap(*Find(schedule, 3, {ActionKind::kForward, 3, 1}),
            *Find(schedule, 3, {ActionKind::kBackward, 3, 1}));
  EXPECT_THAT(ValidateSchedule(schedule), ElementsAre("stage 3: 3B1 runs before 3F1"));
}

TEST(ValidateScheduleTest, HalvesOfABackwardPassInTheWrongOrderOrPlaceAreNamed) {
  PipelineSchedule schedule = MakeZeroBubbleH1(2, 4);
  std::swap(*Find(schedule, 0, {ActionKind::kBackwardWeight, 0, 1}),
            *Find(schedule, 0, {ActionKind::kBackwardInput, 0, 1}));
  EXPECT_THAT(ValidateSchedule(schedule), ElementsAre("stage 0: 0W1 runs before 0I1"));
  schedule = MakeOneForwardOneBackward(2, 4);
  schedule.actions_by_stage[0].push_back({ActionKind::kBackwardWeight, 0, 1});
  EXPECT_THAT(ValidateSchedule(schedule), ElementsAre("stage 0: 0W1 is no pass of the schedule"));
}

TEST(ValidateScheduleTest, AReceiveAfterItsUseIsNamed) {
  PipelineSchedule schedule = MakeGPipe(2, 2);
  std::swap(*Find(schedule, 1, {ActionKind::kRecvForward, 1, 0}),
            *Find(schedule, 1, {ActionKind::kForward, 1, 0}));
  EXPECT_THAT(ValidateSchedule(schedule), ElementsAre("stage 1: 1F0 runs before 1RF0"));
}

TEST(ValidateScheduleTest, UngroupedExchangesDeadlock) {
  PipelineSchedule schedule = MakeOneForwardOneBackward(2, 3);
  for (auto& actions : schedule.actions_by_stage) {
    int exchange = 0;
    for (Action& action : actions) {
      if (IsTransfer(action.kind)) action.exchange = exchange++;
    }
  }
  EXPECT_THAT(ValidateSchedule(schedule),
              ElementsAre("deadlock when a send waits for its receive: stage 0 in 0SF1, stage 1 in "
                          "1SB0"));
}

TEST(ValidateScheduleTest, AnActionOnTheWrongStageOrTwiceIsNamed) {
  PipelineSchedule schedule = MakeOneForwardOneBackward(2, 2);
  *Find(schedule, 0, {ActionKind::kForward, 0, 0}) = {ActionKind::kForward, 1, 0};
  *Find(schedule, 1, {ActionKind::kForward, 1, 1}) = {ActionKind::kForward, 1, 0};
  EXPECT_THAT(ValidateSchedule(schedule),
              ElementsAre("stage 0: 1F0 belongs to stage 1", "stage 1: 1F0 appears twice",
                          "stage 0: 0F0 is missing", "stage 1: 1F1 is missing"));
}

TEST(ValidateScheduleTest, AnActionOutsideTheShapeIsNamed) {
  PipelineSchedule schedule = MakeOneForwardOneBackward(2, 2);
  schedule.actions_by_stage[1].push_back({ActionKind::kForward, 3, 0});
  schedule.actions_by_stage[1].push_back({ActionKind::kSendForward, 1, 0, 99});
  EXPECT_THAT(ValidateSchedule(schedule), ElementsAre(HasSubstr("names virtual stage 3"),
                                                      "stage 1: 1SF0 has no stage to talk to"));
}

TEST(ValidateScheduleTest, ExchangesMustBeMarkedAndConsecutive) {
  PipelineSchedule schedule = MakeOneForwardOneBackward(2, 4);
  Find(schedule, 0, {ActionKind::kSendForward, 0, 0})->exchange = -1;
  Find(schedule, 1, {ActionKind::kSendBackward, 1, 3})->exchange =
      Find(schedule, 1, {ActionKind::kRecvForward, 1, 0})->exchange;
  EXPECT_THAT(ValidateSchedule(schedule), ElementsAre("stage 0: 0SF0 has exchange -1",
                                                      HasSubstr("is not of consecutive actions")));
}

// Without tags the n-th send meets the n-th receive, even inside one exchange.
TEST(ValidateScheduleTest, SendsAndReceivesInDifferentOrderAreNamed) {
  PipelineSchedule schedule = MakeInterleaved({2, 2, 4});
  const auto send = Find(schedule, 0, {ActionKind::kSendForward, 0, 2});
  ASSERT_EQ(ToString(*(send + 1)), "2SB0");
  std::swap(*send, *(send + 1));
  EXPECT_THAT(ValidateSchedule(schedule),
              ElementsAre("stage 0 sends 2SB0 where stage 1 receives 0SF2 first"));
}

TEST(ValidateScheduleTest, AHopelessScheduleGivesFewMessages) {
  PipelineSchedule schedule = MakeOneForwardOneBackward(8, 64);
  for (auto& actions : schedule.actions_by_stage) actions.clear();
  const std::vector<std::string> messages = ValidateSchedule(schedule);
  EXPECT_LE(messages.size(), 20u);
  EXPECT_THAT(messages, Each(HasSubstr("is missing")));
  schedule.actions_by_stage.pop_back();
  EXPECT_THAT(ValidateSchedule(schedule), ElementsAre(HasSubstr("actions for 7 stages")));
}

}  // namespace
}  // namespace tessera::spec
