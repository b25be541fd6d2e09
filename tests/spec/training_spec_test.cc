#include "cost_model/spec/training_spec.h"

#include <gtest/gtest.h>

namespace tessera::spec {
namespace {

using base::DType;

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
