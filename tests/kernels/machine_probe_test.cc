#include "kernels/machine_probe.h"

#include <gtest/gtest.h>

namespace tessera::kernels {
namespace {

// No test can know the machine: these hold for any processor of the last ten years, busy or not.
void ExpectPlausible(const MachineProbe& probe) {
  for (const auto* table : {&probe.matmul_flops_per_s, &probe.attention_flops_per_s}) {
    ASSERT_FALSE(table->empty());
    for (const RatePoint& point : *table) {
      EXPECT_GT(point.rate, 1e6) << point.size;
      EXPECT_LT(point.rate, 1e13) << point.size;
    }
  }
  for (const RatePoint& point : probe.pass_bytes_per_s) {
    EXPECT_GT(point.rate, 1e6) << point.size;
    EXPECT_LT(point.rate, 1e13) << point.size;
  }
  EXPECT_GT(probe.matmul_flops_per_s.back().rate, probe.matmul_flops_per_s.front().rate);
  EXPECT_GT(probe.memory_bandwidth_bytes_per_s, 1e8);
  EXPECT_GT(probe.update_bandwidth_bytes_per_s, 1e8);
  EXPECT_GT(probe.op_overhead_s, 0);
  EXPECT_LT(probe.op_overhead_s, 1e-3);
}

TEST(MachineProbeTest, MeasuresPlausibleRatesAtAscendingSizes) {
  const MachineProbe probe = ProbeMachine(2);
  EXPECT_EQ(probe.num_threads, 2);
  ExpectPlausible(probe);
  for (const auto* table :
       {&probe.matmul_flops_per_s, &probe.attention_flops_per_s, &probe.pass_bytes_per_s}) {
    for (size_t i = 1; i < table->size(); ++i) {
      EXPECT_GT((*table)[i].size, (*table)[i - 1].size);
    }
  }
}

}  // namespace
}  // namespace tessera::kernels
