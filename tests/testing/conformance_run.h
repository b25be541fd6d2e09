// Plans run on any device and held against their prediction: bytes, operations, actions.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/train/rank_trainer.h"

namespace tessera::testing {

using DeviceFactory =
    std::function<std::unique_ptr<engine::RankDevice>(engine::Communicator& host_world)>;

// One rank after two steps, with the operations of the second.
struct RankOutcome {
  spec::RankCoord coord;
  spec::StageMemory memory;
  int64_t beyond_arena_bytes = 0;
  std::vector<base::OpRecord> records;
  spec::RankTimeline timeline;
  std::vector<spec::ParameterSpec> parameters;
  std::vector<spec::LocalSlice> slices;
};

// By rank.
std::vector<RankOutcome> RunPlan(const spec::Plan& plan, const DeviceFactory& make_device);

// The plan with the memory predicted for its cluster, by stage.
spec::Plan WithPredictedMemory(spec::Plan plan);

spec::PipelineSchedule ScheduleOf(const spec::Plan& plan);

// The operations of all actions of one stage on a context rank, in order.
std::vector<base::OpRecord> PlannedOps(const spec::Plan& plan,
                                       const std::vector<spec::VirtualStage>& stages,
                                       const std::vector<spec::Action>& actions, int context_rank);

// Whether an operation moves parameters or gradients between the ranks that hold the same ones, or
// makes room for them: within the passes only where ZeRO shards these.
bool IsShardTraffic(const base::OpRecord& record);
// What a rank did behind its last pass.
std::vector<base::OpRecord> UpdateOf(const spec::Plan& plan, const RankOutcome& rank);

// Expects (as a test) that a rank of a plan with predicted memory took just as much of each kind,
// and no more than its arena has.
void ExpectPredictedMemory(const spec::Plan& plan, const RankOutcome& rank);
// Expects that it ran the schedule's actions, and the operations of the op list in their order,
// traffic of shards apart.
void ExpectPlannedOperations(const spec::Plan& plan, const RankOutcome& rank);

}  // namespace tessera::testing
