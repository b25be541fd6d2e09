// Predicted against allocated bytes, planned against run operations, on the emulated device.
#include <gtest/gtest.h>

#include "engine/device/rank_device.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/conformance_run.h"

namespace tessera::testing {
namespace {

std::unique_ptr<engine::RankDevice> MakeEmulatedDevice(engine::Communicator& host_world) {
  return engine::MakeRankDevice(
      {.device = engine::DeviceKind::kCuda, .comm = engine::CommKind::kNccl, .timeout_s = 60},
      host_world);
}

// Every so many plans: the counting device of the conformance tests goes through all of them.
TEST(EmulatedConformanceTest, TheCudaEngineDoesWhatWasPredicted) {
  constexpr size_t kStride = 6;
  const std::vector<NamedPlan> plans = ConformancePlans(spec::Precision::kBf16);
  for (size_t i = 0; i < plans.size(); i += kStride) {
    SCOPED_TRACE(plans[i].name);
    spec::Plan plan = plans[i].plan;
    plan.cluster.shared_compute_units = 0;  // devices of their own
    plan = WithPredictedMemory(plan);
    for (const RankOutcome& rank : RunPlan(plan, MakeEmulatedDevice)) {
      ExpectPredictedMemory(plan, rank);
      ExpectPlannedOperations(plan, rank);
    }
  }
}

}  // namespace
}  // namespace tessera::testing
