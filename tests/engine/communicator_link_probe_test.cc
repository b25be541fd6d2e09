#include <gtest/gtest.h>

#include <chrono>

#include "engine/comm/link_probe.h"

namespace tessera::engine {
namespace {

TEST(LinkProbeTest, MeasuresTimesAndRatesThatAMachineCanHave) {
  using Clock = std::chrono::steady_clock;
  for (const int num_ranks : {2, 4}) {
    const Clock::time_point start = Clock::now();
    const LinkProbe probe = ProbeThreadLinks(num_ranks);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    EXPECT_EQ(probe.num_ranks, num_ranks);
    // No cache line crosses cores in less than 10 ns; a second would be a hang.
    EXPECT_GT(probe.all_reduce_latency_s, 1e-8);
    EXPECT_LT(probe.all_reduce_latency_s, 1.0);
    EXPECT_GT(probe.bandwidth_bytes_per_s, 1e6);
    EXPECT_LT(probe.bandwidth_bytes_per_s, 1e13);
    // The probe's own promise is 2 s on an idle machine.
    EXPECT_LT(elapsed.count(), 20.0);
  }
}

}  // namespace
}  // namespace tessera::engine
