// Schedules of forward passes alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PipelineScheduleTest, ForwardPassesAloneAreValidForAnyNumberOfMicrobatches) {
  for (int p = 1; p <= 5; ++p) {
    for (int v = 1; v <= (p == 1 ? 1 : 3); ++v) {
      for (int m = 1; m <= 2 * p + 1; ++m) {
        for (const bool overlaps : {false, true}) {
          const ParallelSpec parallel = {
              .pipeline_parallel_size = p, .virtual_pipeline_size = v, .overlap_pp_comm = overlaps};
          EXPECT_THAT(ValidateSchedule(MakeForwardOnly(parallel, m)), IsEmpty())
              << "p=" << p << " v=" << v << " m=" << m << (overlaps ? " overlapped" : "");
        }
      }
    }
  }
}

// Worked out by hand: what a stage sends and what it receives in the same round is one exchange.
TEST(PipelineScheduleTest, ForwardPassesAloneGoRoundTheChunks) {
  ParallelSpec parallel = {.pipeline_parallel_size = 2};
  PipelineSchedule schedule = MakeForwardOnly(parallel, 2);
  EXPECT_EQ(ToString(schedule.actions_by_stage[0]), "0F0 0SF0 0F1 0SF1");
  EXPECT_EQ(ToString(schedule.actions_by_stage[1]), "1RF0 1F0 1RF1 1F1");
  parallel.virtual_pipeline_size = 2;
  schedule = MakeForwardOnly(parallel, 1);
  EXPECT_EQ(ToString(schedule.actions_by_stage[0]), "0F0 0SF0 2RF0 2F0 2SF0");
  EXPECT_EQ(ToString(schedule.actions_by_stage[1]), "1RF0 1F0 1SF0 3RF0 3F0");
  schedule = MakeForwardOnly(parallel, 2);
  EXPECT_EQ(ToString(schedule.actions_by_stage[0]),
            "0F0 0SF0 0F1 [0SF1 2RF0] 2F0 [2SF0 2RF1] 2F1 2SF1");
}

TEST(ValidateScheduleTest, ABackwardPassAmongForwardPassesAloneIsNamed) {
  PipelineSchedule schedule = MakeForwardOnly({}, 1);
  schedule.actions_by_stage[0].push_back({ActionKind::kBackward, 0, 0});
  EXPECT_THAT(ValidateSchedule(schedule), ElementsAre(HasSubstr("0B0 is no pass")));
}

}  // namespace
}  // namespace tessera::spec
