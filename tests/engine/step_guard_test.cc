#include "engine/train/step_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/train/step_sums.h"

namespace tessera::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(StepGuardTest, StopsByDefaultAtNumbersThatAreNone) {
  for (const auto& [loss, norm] : {std::pair(kNan, 1.0), {1.0, kNan}, {kInfinity, 1.0}}) {
    StepGuard guard({});
    EXPECT_EQ(guard.Judge(1, 1).verdict, Verdict::kApply);
    const Judgement judgement = guard.Judge(loss, norm);
    EXPECT_EQ(judgement.verdict, Verdict::kStop);
    EXPECT_FALSE(judgement.is_finite);
  }
}

TEST(StepGuardTest, IgnoresSpikesUnlessAskedTo) {
  StepGuard guard({.spike_grad_norm = 1});
  for (int step = 0; step < 10; ++step) guard.Judge(1, 1);
  EXPECT_EQ(guard.Judge(1000, 1000).verdict, Verdict::kApply);
}

TEST(StepGuardTest, ALossIsHeldAgainstTheMeanOfTheStepsBefore) {
  StepGuard guard({.on_spike = SpikeAction::kSkip, .spike_loss_factor = 3});
  // Too few to tell, then a mean of 2.
  EXPECT_EQ(guard.Judge(1, 1).verdict, Verdict::kApply);
  EXPECT_EQ(guard.Judge(4, 1).verdict, Verdict::kApply);
  EXPECT_EQ(guard.Judge(2, 1).verdict, Verdict::kApply);
  EXPECT_EQ(guard.Judge(2, 1).verdict, Verdict::kApply);
  EXPECT_EQ(guard.Judge(1, 1).verdict, Verdict::kApply);
  EXPECT_EQ(guard.Judge(6, 1).verdict, Verdict::kApply);  // 3 x 2 and no more; the mean is 16 / 6
  const Judgement judgement = guard.Judge(8.5, 1);
  EXPECT_EQ(judgement.verdict, Verdict::kSkip);
  EXPECT_TRUE(judgement.is_finite);
  EXPECT_THAT(judgement.reason, AllOf(HasSubstr("8.5"), HasSubstr("last 6 steps")));
  // What was skipped does not count.
  EXPECT_EQ(guard.Judge(8.5, 1).verdict, Verdict::kSkip);
  EXPECT_EQ(guard.Judge(7.5, 1).verdict, Verdict::kApply);
}

TEST(StepGuardTest, AGradientNormAboveItsBoundStopsOrSkips) {
  StepGuard stops({.on_spike = SpikeAction::kStop, .spike_grad_norm = 10});
  EXPECT_EQ(stops.Judge(1, 10).verdict, Verdict::kApply);
  const Judgement judgement = stops.Judge(1, 11);
  EXPECT_EQ(judgement.verdict, Verdict::kStop);
  EXPECT_THAT(judgement.reason, AllOf(HasSubstr("11"), HasSubstr("10")));
}

TEST(StepGuardTest, StopsAfterSoManySkippedStepsInARow) {
  StepGuard guard({.on_nan = NanAction::kSkip, .most_skipped_steps = 2});
  EXPECT_EQ(guard.Judge(kNan, 1).verdict, Verdict::kSkip);
  EXPECT_EQ(guard.Judge(kNan, 1).verdict, Verdict::kSkip);
  EXPECT_EQ(guard.Judge(1, 1).verdict, Verdict::kApply);  // counts anew
  EXPECT_EQ(guard.Judge(kNan, 1).verdict, Verdict::kSkip);
  EXPECT_EQ(guard.Judge(kNan, 1).verdict, Verdict::kSkip);
  const Judgement judgement = guard.Judge(kNan, 1);
  EXPECT_EQ(judgement.verdict, Verdict::kStop);
  EXPECT_THAT(judgement.reason, HasSubstr("2 steps in a row"));
}

}  // namespace
}  // namespace tessera::engine
