#include "cost_model/spec/training_spec.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::spec {
namespace {

using base::DType;

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

TEST(TypesOfTest, MixedPrecisionKeepsGradientsAndMasterWeightsInFp32) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
    const PrecisionTypes types = TypesOf(precision);
    EXPECT_EQ(types.gradient, DType::kFloat32) << ToString(precision);
    EXPECT_TRUE(types.has_master_weights) << ToString(precision);
    EXPECT_EQ(SizeBytes(types.parameter), 2) << ToString(precision);
    EXPECT_EQ(SizeBytes(types.activation), 2) << ToString(precision);
  }
}

TEST(TypesOfTest, Fp32NeedsNoSecondCopy) {
  const PrecisionTypes types = TypesOf(Precision::kFp32);
  EXPECT_EQ(types.parameter, DType::kFloat32);
  EXPECT_EQ(types.matmul, DType::kFloat32);
  EXPECT_FALSE(types.has_master_weights);
}

TEST(TypesOfTest, Fp8IsForMatrixProductsAlone) {
  const PrecisionTypes types = TypesOf(Precision::kFp8);
  EXPECT_EQ(types.matmul, DType::kFloat8);
  EXPECT_EQ(types.activation, DType::kBFloat16);
}

TEST(PrecisionTest, NamesReadBackAsTheirValues) {
  for (const Precision precision :
       {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8}) {
    EXPECT_EQ(PrecisionFromString(ToString(precision)), precision);
  }
  EXPECT_EQ(PrecisionFromString("fp64"), std::nullopt);
}

}  // namespace
}  // namespace tessera::spec
