#include "cost_model/base/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/base/dtype.h"
#include "cost_model/base/error.h"
#include "cost_model/base/math.h"

namespace tessera::base {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CheckTest, AFailureNamesPlaceConditionAndValues) {
  const int rank = 5;
  try {
    TESSERA_CHECK(rank < 4, "rank ", rank, " outside world of ", 4);
    FAIL() << "5 < 4 passed";
  } catch (const CheckFailure& failure) {
    EXPECT_THAT(failure.what(), AllOf(HasSubstr("check_test.cc:"), HasSubstr("rank < 4"),
                                      HasSubstr("rank 5 outside world of 4")));
  }
}

TEST(CheckTest, ValuesAreNotComputedWhereTheConditionHolds) {
  int num_calls = 0;
  const auto describe = [&] { return ++num_calls; };
  TESSERA_CHECK(true, "never printed ", describe());
  EXPECT_EQ(num_calls, 0);
}

TEST(ConfigErrorTest, NamesFileKeyFoundAndExpected) {
  EXPECT_STREQ(ConfigError("plan.json", "/parallel/tp", "\"two\"", "an integer").what(),
               "plan.json: /parallel/tp: found \"two\", expected an integer");
  EXPECT_STREQ(ConfigError("tokens.bin", "", "0 bytes", "at least one token").what(),
               "tokens.bin: found 0 bytes, expected at least one token");
}

TEST(MathTest, DivisionRoundsUp) {
  EXPECT_EQ(CeilDiv(0, 4), 0);
  EXPECT_EQ(CeilDiv(1, 4), 1);
  EXPECT_EQ(CeilDiv(8, 4), 2);
  EXPECT_EQ(CeilDiv(9, 4), 3);
  EXPECT_EQ(RoundUp(50257, 128), 50304);
  EXPECT_EQ(RoundUp(50304, 128), 50304);
}

TEST(DTypeTest, SizesAreThoseOfTheNames) {
  EXPECT_EQ(SizeBytes(DType::kFloat32), 4);
  EXPECT_EQ(SizeBytes(DType::kBFloat16), 2);
  EXPECT_EQ(SizeBytes(DType::kFloat16), 2);
  EXPECT_EQ(SizeBytes(DType::kFloat8), 1);
  EXPECT_EQ(SizeBytes(DType::kInt32), 4);
  EXPECT_EQ(SizeBytes(DType::kInt64), 8);
  EXPECT_EQ(SizeBytes(DType::kUInt16), 2);
  EXPECT_EQ(SizeBytes(DType::kUInt8), 1);
  EXPECT_EQ(ToString(DType::kBFloat16), "bf16");
}

}  // namespace
}  // namespace tessera::base
