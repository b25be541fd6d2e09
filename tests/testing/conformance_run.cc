#include "tests/testing/conformance_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/memory.h"
#include "cost_model/spec/op_list.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/run_ranks.h"

namespace tessera::testing {
namespace {

class Recorder : public base::OpObserver {
 public:
  void OnOpBegin(const base::OpRecord& record) override { records_.push_back(record); }
  void OnOpEnd(const base::OpRecord& /*record*/) override {}
  const std::vector<base::OpRecord>& records() const { return records_; }

 private:
  std::vector<base::OpRecord> records_;
};

std::vector<base::OpRecord> RecordsOf(const std::vector<spec::Op>& ops) {
  std::vector<base::OpRecord> records;
  for (const spec::Op& op : ops) records.push_back(op.record);
  return records;
}

// Position of the first difference, or -1.
int64_t FirstDifference(const std::vector<base::OpRecord>& planned,
                        const std::vector<base::OpRecord>& recorded) {
  for (size_t i = 0; i < planned.size(); ++i) {
    if (i >= recorded.size() || !(planned[i] == recorded[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

// Without what the ranks tell each other before them: of a masked loss how many tokens count.
std::vector<base::OpRecord> PassesOf(const spec::Plan& plan, std::vector<base::OpRecord> records) {
  if (!plan.training.eod_mask_loss) return records;
  TESSERA_CHECK(records.front().kind == base::OpKind::kAllGather, ToString(records.front()));
  records.erase(records.begin());
  return records;
}

}  // namespace

std::vector<RankOutcome> RunPlan(const spec::Plan& plan, const DeviceFactory& make_device) {
  const CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  std::vector<RankOutcome> outcomes(static_cast<size_t>(plan.num_devices));
  // Rendezvous sends: the order of transfers must hold where a send waits for its receive.
  engine::RunThreadRanks(plan.num_devices,
                         {.timeout_s = kTestTimeoutSeconds, .rendezvous_sends = true},
                         [&](engine::Communicator& world) {
                           const auto device = make_device(world);
                           engine::RankTrainer trainer(plan, *device, world, source);
                           trainer.Step(false);
                           Recorder recorder;
                           trainer.set_observer(&recorder);
                           trainer.Step(false);
                           trainer.set_observer(nullptr);
                           outcomes[static_cast<size_t>(world.rank())] = {
                               .coord = trainer.coord(),
                               .memory = trainer.MeasuredMemory(),
                               .beyond_arena_bytes = trainer.BeyondArenaBytes(),
                               .records = PassesOf(plan, recorder.records()),
                               .timeline = trainer.last_timeline(),
                               .parameters = trainer.store().parameters(),
                               .slices = trainer.store().slices()};
                         });
  return outcomes;
}

spec::Plan WithPredictedMemory(spec::Plan plan) {
  plan.prediction = spec::StepReport{
      .stages = cost_model::MemoryOf(plan.model, plan.cluster, plan.training, plan.parallel,
                                     PartitionStages(plan.model, plan.parallel))};
  return plan;
}

spec::PipelineSchedule ScheduleOf(const spec::Plan& plan) {
  return spec::MakeSchedule(plan.parallel,
                            static_cast<int>(spec::NumMicrobatches(plan.training, plan.parallel)));
}

std::vector<base::OpRecord> PlannedOps(const spec::Plan& plan,
                                       const std::vector<spec::VirtualStage>& stages,
                                       const std::vector<spec::Action>& actions, int context_rank) {
  const spec::LocalShape shape = spec::MakeLocalShape(plan.model, plan.training, plan.parallel);
  const int64_t sent_elements = spec::SentTransferElements(plan.parallel, shape);
  const int64_t last_virtual_stage = static_cast<int64_t>(stages.size()) - 1;
  const auto transfer = [&](base::OpKind kind) -> base::OpRecord {
    return {kind,
            {sent_elements, plan.parallel.pipeline_parallel_size,
             static_cast<int64_t>(spec::Axis::kPipeline),
             base::SizeBytes(spec::TypesOf(plan.training.precision).activation)}};
  };
  std::vector<base::OpRecord> planned;
  for (const spec::Action& action : actions) {
    const spec::VirtualStage& stage = stages.at(static_cast<size_t>(action.virtual_stage));
    std::vector<base::OpRecord> ops;
    switch (action.kind) {
      case spec::ActionKind::kForward:
        ops = RecordsOf(
            StageForwardOps(plan.model, plan.training, plan.parallel, stage, context_rank));
        break;
      case spec::ActionKind::kBackward:
        ops = RecordsOf(
            StageBackwardOps(plan.model, plan.training, plan.parallel, stage, context_rank));
        break;
      case spec::ActionKind::kSendForward:
      case spec::ActionKind::kSendBackward:
        ops = {transfer(base::OpKind::kSend)};
        break;
      case spec::ActionKind::kRecvForward:
      case spec::ActionKind::kRecvBackward:
        ops = {transfer(base::OpKind::kRecv)};
        break;
      case spec::ActionKind::kBackwardInput:
        ops = RecordsOf(
            StageBackwardInputOps(plan.model, plan.training, plan.parallel, stage, context_rank));
        break;
      case spec::ActionKind::kBackwardWeight:
        ops = RecordsOf(StageBackwardWeightOps(plan.model, plan.training, plan.parallel, stage));
        break;
    }
    const bool reads_transfer = plan.parallel.pipeline_parallel_size > 1 &&
                                (action.kind == spec::ActionKind::kForward
                                     ? action.virtual_stage > 0
                                     : (action.kind == spec::ActionKind::kBackward ||
                                        action.kind == spec::ActionKind::kBackwardInput) &&
                                           action.virtual_stage < last_virtual_stage);
    if (reads_transfer && sent_elements < spec::PipelineTransferElements(shape)) {
      planned.push_back(
          {.kind = base::OpKind::kAllGather,
           .dims = {spec::PipelineTransferElements(shape), plan.parallel.tensor_parallel_size,
                    static_cast<int64_t>(spec::Axis::kTensor)}});
    }
    planned.insert(planned.end(), ops.begin(), ops.end());
  }
  return planned;
}

bool IsShardTraffic(const base::OpRecord& record) {
  switch (record.kind) {
    case base::OpKind::kFill:
    case base::OpKind::kAdd:
      return true;
    case base::OpKind::kAllGather:
    case base::OpKind::kReduceScatter: {
      const auto axis = static_cast<spec::Axis>(record.dims[2]);
      return axis == spec::Axis::kGradient || axis == spec::Axis::kShard ||
             axis == spec::Axis::kExpertData || axis == spec::Axis::kExpertShard;
    }
    default:
      return false;
  }
}

std::vector<base::OpRecord> UpdateOf(const spec::Plan& plan, const RankOutcome& rank) {
  const std::vector<base::OpRecord> planned =
      PlannedOps(plan, PartitionStages(plan.model, plan.parallel),
                 ScheduleOf(plan).actions_by_stage[static_cast<size_t>(rank.coord.pipeline)],
                 rank.coord.context);
  int64_t left = std::count_if(planned.begin(), planned.end(),
                               [](const auto& record) { return !IsShardTraffic(record); });
  auto record = rank.records.begin();
  for (; left > 0; ++record) left -= IsShardTraffic(*record) ? 0 : 1;
  return {record, rank.records.end()};
}

void ExpectPredictedMemory(const spec::Plan& plan, const RankOutcome& rank) {
  const spec::StageMemory& predicted =
      plan.prediction->stages.at(static_cast<size_t>(rank.coord.pipeline));
  EXPECT_EQ(rank.memory.weights_bytes, predicted.weights_bytes);
  EXPECT_EQ(rank.memory.gradients_bytes, predicted.gradients_bytes);
  EXPECT_EQ(rank.memory.optimizer_bytes, predicted.optimizer_bytes);
  EXPECT_EQ(rank.memory.activations_bytes, predicted.activations_bytes);
  EXPECT_EQ(rank.memory.buffers_bytes, predicted.buffers_bytes - predicted.context_bytes);
  EXPECT_EQ(rank.beyond_arena_bytes, 0);
}

void ExpectPlannedOperations(const spec::Plan& plan, const RankOutcome& rank) {
  const spec::PipelineSchedule schedule = ScheduleOf(plan);
  const std::vector<spec::Action>& actions =
      schedule.actions_by_stage[static_cast<size_t>(rank.coord.pipeline)];
  ASSERT_EQ(rank.timeline.actions.size(), actions.size());
  for (size_t i = 0; i < actions.size(); ++i) {
    ASSERT_EQ(rank.timeline.actions[i].action, actions[i]);
  }
  // The step begins by clearing the gradients and ends with reductions and the update.
  const auto without_traffic = [](std::vector<base::OpRecord> records) {
    std::erase_if(records, IsShardTraffic);
    return records;
  };
  const std::vector<base::OpRecord> planned = without_traffic(
      PlannedOps(plan, PartitionStages(plan.model, plan.parallel), actions, rank.coord.context));
  ASSERT_GT(rank.records.size(), planned.size());
  EXPECT_EQ(rank.records.front().kind, base::OpKind::kFill);
  const std::vector<base::OpRecord> passes = without_traffic(rank.records);
  const int64_t difference = FirstDifference(planned, passes);
  ASSERT_EQ(difference, -1) << "planned " << ToString(planned[difference]) << ", ran "
                            << ToString(passes[difference]);
}

}  // namespace tessera::testing
