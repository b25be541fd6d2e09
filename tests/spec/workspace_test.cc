#include "cost_model/spec/workspace.h"

#include <gtest/gtest.h>

#include <vector>

#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {
namespace {

// Whether an activation that was received and not yet used lies there during a backward pass.
bool WaitsInBackward(const std::vector<Action>& actions) {
  int num_waiting = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::kRecvForward) ++num_waiting;
    if (action.kind == ActionKind::kForward && action.virtual_stage > 0) --num_waiting;
    if (action.kind == ActionKind::kBackward && num_waiting > 0) return true;
  }
  return false;
}

TEST(WorkspaceTest, TransfersHeldAreThoseOfTheSchedule) {
  for (const int pp : {2, 3, 4, 5, 8}) {
    for (const int vpp : {1, 2, 3, 4}) {
      for (const int num_rounds : {1, 2, 3}) {
        const ParallelSpec parallel{
            .pipeline_parallel_size = pp,
            .virtual_pipeline_size = vpp,
            .schedule = vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneForwardOneBackward};
        const PipelineSchedule schedule = MakeSchedule(parallel, num_rounds * pp);
        for (int stage = 0; stage < pp; ++stage) {
          EXPECT_EQ(HoldsTransferInBackward(parallel, num_rounds * pp, stage),
                    WaitsInBackward(schedule.actions_by_stage[stage]))
              << "pp " << pp << " vpp " << vpp << " rounds " << num_rounds << " stage " << stage;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::spec
