#include "cost_model/spec/efficiency.h"

#include <gtest/gtest.h>

namespace tessera::spec {
namespace {

TEST(EfficiencyTest, IsLinearInTheLogarithmBetweenPoints) {
  const EfficiencyTable table = {{1e8, 0.2}, {1e10, 0.6}};
  EXPECT_DOUBLE_EQ(EfficiencyAt(table, 1e9), 0.4);  // half-way in log
  EXPECT_DOUBLE_EQ(EfficiencyAt(table, 1e8), 0.2);
  EXPECT_DOUBLE_EQ(EfficiencyAt(table, 1e10), 0.6);
}

TEST(EfficiencyTest, IsConstantOutsideTheTable) {
  const EfficiencyTable table = {{1e8, 0.2}, {1e10, 0.6}};
  EXPECT_DOUBLE_EQ(EfficiencyAt(table, 1), 0.2);
  EXPECT_DOUBLE_EQ(EfficiencyAt(table, 1e15), 0.6);
}

TEST(EfficiencyTest, IsOneForAnEmptyTable) { EXPECT_DOUBLE_EQ(EfficiencyAt({}, 1e9), 1.0); }

}  // namespace
}  // namespace tessera::spec
