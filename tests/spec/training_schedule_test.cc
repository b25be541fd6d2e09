#include "cost_model/spec/training_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::spec {
namespace {

OptimizerSpec Schedule(LrDecayStyle style) {
  return {.lr = 0.01,
          .min_lr = 0.001,
          .lr_warmup_steps = 4,
          .lr_decay_steps = 12,
          .lr_decay_style = style};
}

TEST(LearningRateTest, WarmsUpLinearlyFromTheFirstStep) {
  const OptimizerSpec optimizer = Schedule(LrDecayStyle::kCosine);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 1, 100), 0.0025);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 2, 100), 0.005);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 4, 100), 0.01);
}

TEST(LearningRateTest, LinearDecayIsHalfWayAtHalfTime) {
  const OptimizerSpec optimizer = Schedule(LrDecayStyle::kLinear);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 6, 100), 0.01 - 0.25 * 0.009);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 8, 100), 0.0055);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 12, 100), 0.001);
}

TEST(LearningRateTest, CosineDecayFollowsHalfACosine) {
  const OptimizerSpec optimizer = Schedule(LrDecayStyle::kCosine);
  // A quarter of the way: (1 + cos(pi / 4)) / 2.
  EXPECT_NEAR(LearningRate(optimizer, 6, 100), 0.001 + 0.009 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_NEAR(LearningRate(optimizer, 8, 100), 0.0055, 1e-15);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 12, 100), 0.001);
}

TEST(LearningRateTest, StaysAtTheLeastAfterTheDecay) {
  EXPECT_DOUBLE_EQ(LearningRate(Schedule(LrDecayStyle::kLinear), 50, 100), 0.001);
  EXPECT_DOUBLE_EQ(LearningRate(Schedule(LrDecayStyle::kCosine), 50, 100), 0.001);
}

TEST(LearningRateTest, ConstantNeverDecays) {
  EXPECT_DOUBLE_EQ(LearningRate(Schedule(LrDecayStyle::kConstant), 50, 100), 0.01);
}

TEST(LearningRateTest, DecaysOverTheWholeTrainingWhenNoLengthIsGiven) {
  OptimizerSpec optimizer = Schedule(LrDecayStyle::kLinear);
  optimizer.lr_decay_steps = 0;
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 20, 36), 0.0055);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 36, 36), 0.001);
}

TEST(LearningRateTest, ADecayThatEndsWithinTheWarmUpGoesToTheLeastAtOnce) {
  OptimizerSpec optimizer = Schedule(LrDecayStyle::kCosine);
  optimizer.lr_decay_steps = 3;
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 4, 100), 0.01);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 5, 100), 0.001);
}

TEST(LearningRateTest, WarmsUpFromTheRateItIsToldTo) {
  OptimizerSpec optimizer = Schedule(LrDecayStyle::kConstant);
  optimizer.lr_warmup_init = 0.002;
  // 0.002 + 0.008 n / 4.
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 1, 100), 0.004);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 3, 100), 0.008);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 4, 100), 0.01);
}

TEST(LearningRateTest, InverseSquareRootFallsFromTheEndOfTheWarmUp) {
  OptimizerSpec optimizer = Schedule(LrDecayStyle::kInverseSquareRoot);
  optimizer.lr_decay_steps = 1000;
  // 0.01 sqrt(4 / n): half of it at four times the warm-up, a tenth and so min_lr at 400.
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 4, 2000), 0.01);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 16, 2000), 0.005);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 100, 2000), 0.002);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 900, 2000), 0.001);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 1001, 2000), 0.001);
}

TEST(LearningRateTest, InverseSquareRootWithoutWarmUpCountsFromOneStep) {
  OptimizerSpec optimizer = Schedule(LrDecayStyle::kInverseSquareRoot);
  optimizer.lr_warmup_steps = 0;
  optimizer.lr_decay_steps = 1000;
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 1, 2000), 0.01);
  EXPECT_DOUBLE_EQ(LearningRate(optimizer, 25, 2000), 0.002);
}

// Of 12 steps the last 4 decay: steps 9 to 12 have shares of 1/4 to 1 behind them. Of 0.009 is left
// what Megatron-LM's four tails leave there.
TEST(LearningRateTest, WsdIsStableUntilItDecaysByItsTail) {
  OptimizerSpec optimizer = Schedule(LrDecayStyle::kWsd);
  optimizer.lr_wsd_decay_steps = 4;
  const auto rest = [&](WsdDecayStyle style, double step) {
    optimizer.lr_wsd_decay_style = style;
    return (LearningRate(optimizer, step, 100) - 0.001) / 0.009;
  };
  for (int i = 0; ToString(static_cast<WsdDecayStyle>(i)) != "?"; ++i) {
    const auto style = static_cast<WsdDecayStyle>(i);
    SCOPED_TRACE(ToString(style));
    EXPECT_NEAR(rest(style, 2), (0.005 - 0.001) / 0.009, 1e-12);  // half of the warm-up
    EXPECT_NEAR(rest(style, 5), 1, 1e-12);
    EXPECT_NEAR(rest(style, 8), 1, 1e-12);
    EXPECT_NEAR(rest(style, 12), 0, 1e-12);
    EXPECT_NEAR(rest(style, 13), 0, 1e-12);
  }
  EXPECT_NEAR(rest(WsdDecayStyle::kLinear, 9), 0.75, 1e-12);
  EXPECT_NEAR(rest(WsdDecayStyle::kLinear, 11), 0.25, 1e-12);
  EXPECT_NEAR(rest(WsdDecayStyle::kCosine, 9), (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_NEAR(rest(WsdDecayStyle::kCosine, 10), 0.5, 1e-12);
  EXPECT_NEAR(rest(WsdDecayStyle::kExponential, 10), std::sqrt(2.0) - 1, 1e-12);
  EXPECT_NEAR(rest(WsdDecayStyle::kMinusSqrt, 9), 0.5, 1e-12);
  EXPECT_NEAR(rest(WsdDecayStyle::kMinusSqrt, 10), 1 - std::sqrt(0.5), 1e-12);
}

TEST(WeightDecayTest, GrowsOnALineOrOnHalfACosineOverTheTraining) {
  OptimizerSpec optimizer = {.weight_decay = 0.1, .end_weight_decay = 0.5};
  EXPECT_DOUBLE_EQ(WeightDecay(optimizer, 70, 100), 0.1);
  optimizer.weight_decay_style = WeightDecayStyle::kLinear;
  EXPECT_DOUBLE_EQ(WeightDecay(optimizer, 25, 100), 0.2);
  EXPECT_DOUBLE_EQ(WeightDecay(optimizer, 100, 100), 0.5);
  EXPECT_DOUBLE_EQ(WeightDecay(optimizer, 150, 100), 0.5);
  optimizer.weight_decay_style = WeightDecayStyle::kCosine;
  // A quarter of the way (1 - cos(pi / 4)) / 2 has passed.
  EXPECT_NEAR(WeightDecay(optimizer, 25, 100), 0.1 + 0.4 * (1 - std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_NEAR(WeightDecay(optimizer, 50, 100), 0.3, 1e-15);
}

// From 4 to 16 by 4: three increments over 60 samples, one after every 20.
TrainingSpec RampedTraining() {
  return {.global_batch_size = 16, .steps = 10, .batch_ramp = BatchRamp{4, 4, 60}};
}

TEST(BatchRampTest, GrowsAfterEqualNumbersOfSamples) {
  const TrainingSpec training = RampedTraining();
  EXPECT_EQ(BatchSizeAt(training, 0), 4);
  EXPECT_EQ(BatchSizeAt(training, 19), 4);
  EXPECT_EQ(BatchSizeAt(training, 20), 8);
  EXPECT_EQ(BatchSizeAt(training, 39), 8);
  EXPECT_EQ(BatchSizeAt(training, 40), 12);
  EXPECT_EQ(BatchSizeAt(training, 60), 16);
  EXPECT_EQ(BatchSizeAt(training, 1'000'000), 16);
}

// Five steps of 4, three of 8 (20 to 44), two of 12 (44 to 68), then 16 each.
TEST(BatchRampTest, StepsAndSamplesAreCountedStepByStep) {
  const TrainingSpec training = RampedTraining();
  EXPECT_EQ(SamplesOfSteps(training, 0, 5), 20);
  EXPECT_EQ(SamplesOfSteps(training, 0, 10), 68);
  EXPECT_EQ(SamplesOfSteps(training, 20, 5), 48);
  EXPECT_EQ(SamplesOfSteps(training, 0, 12), 100);
  EXPECT_EQ(StepsOfSamples(training, 0), 0);
  EXPECT_EQ(StepsOfSamples(training, 27), 5);
  EXPECT_EQ(StepsOfSamples(training, 28), 6);
  EXPECT_EQ(StepsOfSamples(training, 68), 10);
  EXPECT_EQ(StepsOfSamples(training, 99), 11);
}

TEST(BatchRampTest, SchedulesCountStepsOfTheWholeBatch) {
  const TrainingSpec training = RampedTraining();
  EXPECT_DOUBLE_EQ(ScheduleStep(training, 1, 4), 0.25);
  EXPECT_DOUBLE_EQ(ScheduleStep(training, 11, 84), 5.25);
  EXPECT_DOUBLE_EQ(ScheduleLength(training), 68.0 / 16);
  const TrainingSpec plain = {.global_batch_size = 16, .steps = 10};
  EXPECT_EQ(BatchSizeAt(plain, 0), 16);
  EXPECT_EQ(SamplesOfSteps(plain, 32, 10), 160);
  EXPECT_EQ(StepsOfSamples(plain, 47), 2);
  // A resumed run may have had another batch before: steps count, not samples.
  EXPECT_DOUBLE_EQ(ScheduleStep(plain, 3, 999), 3);
  EXPECT_DOUBLE_EQ(ScheduleLength(plain), 10);
}

}  // namespace
}  // namespace tessera::spec
