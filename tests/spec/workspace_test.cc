#include "cost_model/spec/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {
namespace {

// The most transfers (received and not yet used, or computed and not yet sent) that lie beside a
// backward pass, which has its own gradient besides.
int MostHeldInBackward(const std::vector<Action>& actions, int num_virtual_stages) {
  int num_held = 0;
  int most = 0;
  for (const Action& action : actions) {
    const bool has_input = action.virtual_stage > 0;
    const bool has_output = action.virtual_stage + 1 < num_virtual_stages;
    if (IsTransfer(action.kind)) num_held += IsRecv(action.kind) ? 1 : -1;
    if (action.kind == ActionKind::kForward) num_held += has_output - has_input;
    if (action.kind != ActionKind::kBackward) continue;
    num_held -= has_output;
    most = std::max(most, num_held);
    num_held += has_input;
  }
  return most;
}

TEST(WorkspaceTest, TransfersHeldAreThoseOfTheSchedule) {
  for (const int pp : {2, 3, 4, 5, 8}) {
    for (const int vpp : {1, 2, 3, 4}) {
      for (const int num_rounds : {1, 2, 3}) {
        const ParallelSpec parallel{.pipeline_parallel_size = pp,
                                    .virtual_pipeline_size = vpp,
                                    .schedule = vpp > 1 ? ScheduleKind::kInterleaved
                                                        : ScheduleKind::kOneForwardOneBackward};
        const PipelineSchedule schedule = MakeSchedule(parallel, num_rounds * pp);
        const std::vector<TransferBuffers> by_stage = TransferBuffersOf(parallel, num_rounds * pp);
        for (int stage = 0; stage < pp; ++stage) {
          const std::vector<int64_t>& by_chunk = by_stage[stage].beside_backward;
          EXPECT_EQ(*std::max_element(by_chunk.begin(), by_chunk.end()),
                    MostHeldInBackward(schedule.actions_by_stage[stage], pp * vpp))
              << "pp " << pp << " vpp " << vpp << " rounds " << num_rounds << " stage " << stage;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::spec
