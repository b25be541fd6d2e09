#include "engine/train/graph_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

using ::testing::HasSubstr;

std::string RefusalOf(const spec::Plan& plan, DeviceKind device = DeviceKind::kCuda,
                      CommKind comm = CommKind::kNccl) {
  try {
    CheckGraphs(plan, device, comm);
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(GraphLimitsTest, GraphsNeedAGpuAndNcclUnlessThereIsOneRank) {
  spec::Plan plan;
  plan.num_devices = 2;
  EXPECT_EQ(RefusalOf(plan), "");
  EXPECT_EQ(RefusalOf(plan, DeviceKind::kCpu, CommKind::kThread),
            "--cuda-graph: found --device cpu, expected --device cuda: CPUs have no graphs");
  EXPECT_THAT(RefusalOf(plan, DeviceKind::kCuda, CommKind::kThread),
              HasSubstr("found --comm thread with 2 devices, expected --comm nccl"));
  plan.num_devices = 1;
  EXPECT_EQ(RefusalOf(plan, DeviceKind::kCuda, CommKind::kThread), "");
}

TEST(GraphLimitsTest, MasksThatChangeWithTheStepAreRefused) {
  for (double spec::DropoutSpec::*kind :
       {&spec::DropoutSpec::hidden, &spec::DropoutSpec::attention, &spec::DropoutSpec::embedding}) {
    spec::Plan plan;
    plan.training.dropout.*kind = 0.1;
    EXPECT_THAT(RefusalOf(plan), HasSubstr("found dropout, expected hidden_dropout"));
  }
}

TEST(GraphLimitsTest, PassesThatTheHostHasAPartInAreRefused) {
  spec::Plan plan;
  plan.model.moe.emplace();
  EXPECT_THAT(RefusalOf(plan), HasSubstr("a model with experts"));
  plan = {};
  plan.parallel.overlap_param_gather = true;
  EXPECT_THAT(RefusalOf(plan), HasSubstr("overlap_param_gather"));
}

}  // namespace
}  // namespace tessera::engine
