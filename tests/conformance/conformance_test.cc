// What was predicted against what the engine does: bytes, operations, actions.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "cost_model/base/check.h"
#include "cost_model/memory.h"
#include "cost_model/pipeline_simulator.h"
#include "cost_model/spec/op_list.h"
#include "cost_model/update_cost.h"
#include "engine/train/rank_trainer.h"
#include "tests/testing/conformance_plans.h"
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

// One rank after two steps, with the operations of the second.
struct RankOutcome {
  spec::RankCoord coord;
  spec::StageMemory memory;
  std::vector<base::OpRecord> records;
  spec::RankTimeline timeline;
  std::vector<spec::ParameterSpec> parameters;
  std::vector<spec::LocalSlice> slices;
};

std::vector<RankOutcome> RunPlan(const spec::Plan& plan) {
  const CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  std::vector<RankOutcome> outcomes(static_cast<size_t>(plan.num_devices));
  // Rendezvous sends: the order of transfers must hold where a send waits for its receive.
  engine::RunThreadRanks(
      plan.num_devices, {.timeout_s = kTestTimeoutSeconds, .rendezvous_sends = true},
      [&](engine::Communicator& world) {
        const auto device =
            engine::MakeRankDevice({.threads_per_rank = plan.threads_per_rank}, world);
        engine::RankTrainer trainer(plan, *device, world, source);
        trainer.Step(false);
        Recorder recorder;
        trainer.set_observer(&recorder);
        trainer.Step(false);
        trainer.set_observer(nullptr);
        outcomes[static_cast<size_t>(world.rank())] = {.coord = trainer.coord(),
                                                       .memory = trainer.MeasuredMemory(),
                                                       .records = recorder.records(),
                                                       .timeline = trainer.last_timeline(),
                                                       .parameters = trainer.store().parameters(),
                                                       .slices = trainer.store().slices()};
      });
  return outcomes;
}

spec::PipelineSchedule ScheduleOf(const spec::Plan& plan) {
  return spec::MakeSchedule(plan.parallel,
                            static_cast<int>(spec::NumMicrobatches(plan.training, plan.parallel)));
}

std::vector<base::OpRecord> RecordsOf(const std::vector<spec::Op>& ops) {
  std::vector<base::OpRecord> records;
  for (const spec::Op& op : ops) records.push_back(op.record);
  return records;
}

// The operations of all actions of one stage, in order.
std::vector<base::OpRecord> PlannedOps(const spec::Plan& plan,
                                       const std::vector<spec::VirtualStage>& stages,
                                       const std::vector<spec::Action>& actions) {
  const int64_t transfer_elements = spec::PipelineTransferElements(
      spec::MakeLocalShape(plan.model, plan.training, plan.parallel));
  std::vector<base::OpRecord> planned;
  for (const spec::Action& action : actions) {
    const spec::VirtualStage& stage = stages.at(static_cast<size_t>(action.virtual_stage));
    std::vector<base::OpRecord> ops;
    switch (action.kind) {
      case spec::ActionKind::kForward:
        ops = RecordsOf(StageForwardOps(plan.model, plan.training, plan.parallel, stage));
        break;
      case spec::ActionKind::kBackward:
        ops = RecordsOf(StageBackwardOps(plan.model, plan.training, plan.parallel, stage));
        break;
      case spec::ActionKind::kSendForward:
      case spec::ActionKind::kSendBackward:
        ops = {{.kind = base::OpKind::kSend, .dims = {transfer_elements}}};
        break;
      case spec::ActionKind::kRecvForward:
      case spec::ActionKind::kRecvBackward:
        ops = {{.kind = base::OpKind::kRecv, .dims = {transfer_elements}}};
        break;
      case spec::ActionKind::kBackwardInput:
      case spec::ActionKind::kBackwardWeight:
        TESSERA_CHECK(false, "the engine runs no backward pass in two parts");
        break;
    }
    planned.insert(planned.end(), ops.begin(), ops.end());
  }
  return planned;
}

// Position of the first difference, or -1.
int64_t FirstDifference(const std::vector<base::OpRecord>& planned,
                        const std::vector<base::OpRecord>& recorded) {
  for (size_t i = 0; i < planned.size(); ++i) {
    if (i >= recorded.size() || !(planned[i] == recorded[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

// Elements of the all-reduces along an axis among the operations after the schedule.
int64_t AllReducedElements(const std::vector<base::OpRecord>& update, spec::Axis axis) {
  int64_t elements = 0;
  for (const base::OpRecord& record : update) {
    if (record.kind == base::OpKind::kAllReduce && record.dims[2] == static_cast<int64_t>(axis)) {
      elements += record.dims[0];
    }
  }
  return elements;
}

class ConformanceTest : public ::testing::TestWithParam<NamedPlan> {
 protected:
  const spec::Plan& plan() const { return GetParam().plan; }
};

TEST_P(ConformanceTest, EngineDoesWhatWasPredicted) {
  SCOPED_TRACE(GetParam().name);
  ASSERT_TRUE(
      FindViolations(plan().model, plan().training, plan().parallel, plan().num_devices).empty());
  const std::vector<spec::VirtualStage> stages = PartitionStages(plan().model, plan().parallel);
  const spec::PipelineSchedule schedule = ScheduleOf(plan());
  const std::vector<spec::StageMemory> predicted =
      cost_model::MemoryOf(plan().model, plan().cluster, plan().training, plan().parallel, stages);
  for (const RankOutcome& rank : RunPlan(plan())) {
    const auto stage = static_cast<size_t>(rank.coord.pipeline);
    SCOPED_TRACE(base::Concat("pp rank ", stage, ", tp rank ", rank.coord.tensor));
    EXPECT_EQ(rank.memory.weights_bytes, predicted[stage].weights_bytes);
    EXPECT_EQ(rank.memory.gradients_bytes, predicted[stage].gradients_bytes);
    EXPECT_EQ(rank.memory.optimizer_bytes, predicted[stage].optimizer_bytes);
    EXPECT_EQ(rank.memory.activations_bytes, predicted[stage].activations_bytes);

    const std::vector<spec::Action>& actions = schedule.actions_by_stage[stage];
    ASSERT_EQ(rank.timeline.actions.size(), actions.size());
    for (size_t i = 0; i < actions.size(); ++i) {
      ASSERT_EQ(rank.timeline.actions[i].action, actions[i]);
    }

    // The step begins by clearing the gradients and ends with reductions and the update.
    const std::vector<base::OpRecord> planned = PlannedOps(plan(), stages, actions);
    ASSERT_GT(rank.records.size(), planned.size());
    EXPECT_EQ(rank.records.front().kind, base::OpKind::kFill);
    const std::vector<base::OpRecord> passes(rank.records.begin() + 1, rank.records.end());
    const int64_t difference = FirstDifference(planned, passes);
    EXPECT_EQ(difference, -1) << "planned " << ToString(planned[difference]) << ", ran "
                              << ToString(passes[difference]);
  }
}

TEST_P(ConformanceTest, UpdateReducesWhatIsPriced) {
  SCOPED_TRACE(GetParam().name);
  const std::vector<spec::VirtualStage> stages = PartitionStages(plan().model, plan().parallel);
  cost_model::JobCosts costs(
      {.model = plan().model,
       .cluster = {.device = {.peak_flops_per_s = {{base::DType::kFloat32, 1e12}}}},
       .training = plan().training,
       .num_devices = plan().num_devices});
  for (const RankOutcome& rank : RunPlan(plan())) {
    cost_model::StageParameterCounts priced;
    for (const spec::VirtualStage& stage : StagesOf(stages, rank.coord.pipeline)) {
      const cost_model::StageParameterCounts counts =
          CountParameters(costs.ParametersOf(plan().parallel), CountForms(plan().model, stage),
                          stage.has_embedding, stage.has_head);
      priced.tokenwise += counts.tokenwise;
      priced.kv_replicated += counts.kv_replicated;
      priced.tied += counts.tied;
    }
    const size_t num_planned =
        PlannedOps(plan(), stages, ScheduleOf(plan()).actions_by_stage[rank.coord.pipeline]).size();
    const std::vector<base::OpRecord> update(
        rank.records.begin() + 1 + static_cast<std::ptrdiff_t>(num_planned), rank.records.end());
    EXPECT_EQ(AllReducedElements(update, spec::Axis::kTensor), priced.tokenwise);
    EXPECT_EQ(AllReducedElements(update, spec::Axis::kKvReplica), priced.kv_replicated);
    EXPECT_EQ(AllReducedElements(update, spec::Axis::kEmbedding), priced.tied);
  }
}

TEST(SimulatedActionsTest, SimulatorAndEngineReadTheSameActions) {
  for (const NamedPlan& named : ConformancePlans()) {
    const spec::PipelineSchedule schedule = ScheduleOf(named.plan);
    const auto num_stages = static_cast<size_t>(schedule.num_stages * schedule.num_chunks);
    const cost_model::PipelineCosts costs{
        .forward_s = std::vector<double>(num_stages, 1.0),
        .backward_s = std::vector<double>(num_stages, 2.0),
        .forward_transfer_s = std::vector<double>(num_stages - 1, 0.1),
        .backward_transfer_s = std::vector<double>(num_stages - 1, 0.1)};
    spec::PipelineTimeline timeline;
    SimulatePipeline(schedule, costs, &timeline);
    ASSERT_EQ(timeline.by_stage.size(), schedule.actions_by_stage.size()) << named.name;
    for (size_t stage = 0; stage < timeline.by_stage.size(); ++stage) {
      const std::vector<spec::Action>& actions = schedule.actions_by_stage[stage];
      ASSERT_EQ(timeline.by_stage[stage].size(), actions.size()) << named.name;
      for (size_t i = 0; i < actions.size(); ++i) {
        ASSERT_EQ(timeline.by_stage[stage][i].action, actions[i]) << named.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, ConformanceTest, ::testing::ValuesIn(ConformancePlans()),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           std::erase(name, '#');
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace tessera::testing
