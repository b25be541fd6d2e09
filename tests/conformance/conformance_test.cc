// What was predicted against what the engine does: bytes, operations, actions.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/pipeline_simulator.h"
#include "cost_model/update_cost.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/conformance_run.h"
#include "tests/testing/expert_plans.h"

namespace tessera::testing {
namespace {

std::vector<RankOutcome> RunOnCpu(const spec::Plan& plan) {
  return RunPlan(plan, [](engine::Communicator& world) {
    return engine::MakeRankDevice({.threads_per_rank = 1}, world);
  });
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

using ReducedElements = std::map<spec::Axis, int64_t>;

// What ranks of one replica reduce after the passes, by price.
ReducedElements PricedReductions(const spec::Plan& plan, int pipeline_stage) {
  cost_model::JobCosts costs(
      {.model = plan.model,
       .cluster = {.device = {.peak_flops_per_s = {{base::DType::kFloat32, 1e12},
                                                   {base::DType::kBFloat16, 1e12},
                                                   {base::DType::kFloat16, 1e12}}}},
       .training = plan.training,
       .num_devices = plan.num_devices});
  ReducedElements priced;
  for (const spec::VirtualStage& stage :
       StagesOf(PartitionStages(plan.model, plan.parallel), pipeline_stage)) {
    const cost_model::StageParameterCounts counts =
        CountParameters(costs.ParametersOf(plan.parallel), CountForms(plan.model, stage),
                        stage.has_embedding, stage.has_head);
    priced[spec::Axis::kTensor] += counts.tokenwise;
    priced[spec::Axis::kKvReplica] += counts.kv_replicated;
    priced[spec::Axis::kEmbedding] += counts.tied;
  }
  return priced;
}

// Of shards each data rank reduces its own: all that shard between them together what is priced
// for whole ones, each such group once more.
void ExpectPricedReductions(const spec::Plan& plan, const std::vector<RankOutcome>& ranks) {
  const bool adds_up = spec::ReducesEachMicrobatch(plan.parallel);
  const int num_groups =
      adds_up ? spec::GradientGroupSize(plan.parallel) / spec::ShardGroupSize(plan.parallel) : 1;
  std::map<std::pair<int, int>, ReducedElements> reduced;  // by stage and tp rank
  for (const RankOutcome& rank : ranks) {
    const std::vector<base::OpRecord> update = UpdateOf(plan, rank);
    for (const auto axis : {spec::Axis::kTensor, spec::Axis::kKvReplica, spec::Axis::kEmbedding}) {
      int64_t& elements = reduced[{rank.coord.pipeline, rank.coord.tensor}][axis];
      elements = AllReducedElements(update, axis) + (adds_up ? elements : 0);
    }
  }
  for (const auto& [place, elements] : reduced) {
    ReducedElements priced = PricedReductions(plan, place.first);
    for (auto& [axis, num_elements] : priced) num_elements *= num_groups;
    EXPECT_EQ(elements, priced);
  }
}

class ConformanceTest : public ::testing::TestWithParam<NamedPlan> {};

TEST_P(ConformanceTest, EngineDoesWhatWasPredicted) {
  SCOPED_TRACE(GetParam().name + " " + GetParam().choices);
  const spec::Plan plan = WithPredictedMemory(GetParam().plan);
  ASSERT_TRUE(FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).empty());
  const std::vector<RankOutcome> ranks = RunOnCpu(plan);
  for (const RankOutcome& rank : ranks) {
    SCOPED_TRACE(base::Concat("pp rank ", rank.coord.pipeline, ", tp rank ", rank.coord.tensor));
    ExpectPredictedMemory(plan, rank);
    ExpectPlannedOperations(plan, rank);
  }
  if (!HasFatalFailure()) ExpectPricedReductions(plan, ranks);
}

TEST(SimulatedActionsTest, SimulatorAndEngineReadTheSameActions) {
  for (const NamedPlan& named : ConformancePlans()) {
    const spec::PipelineSchedule schedule = ScheduleOf(named.plan);
    const auto num_stages = static_cast<size_t>(schedule.num_stages * schedule.num_chunks);
    cost_model::PipelineCosts costs{
        .forward_s = std::vector<double>(num_stages, 1.0),
        .backward_s = std::vector<double>(num_stages, 2.0),
        .forward_transfer_s = std::vector<double>(num_stages - 1, 0.1),
        .backward_transfer_s = std::vector<double>(num_stages - 1, 0.1)};
    if (schedule.kind == spec::ScheduleKind::kZeroBubbleH1) {
      costs.backward_weight_s = std::vector<double>(num_stages, 1.0);
    }
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

std::string TestNameOf(const ::testing::TestParamInfo<NamedPlan>& test) {
  std::string name = test.param.name;
  std::erase(name, '#');
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

// Every eleventh plan in a precision: models, meshes and further choices take turns among them.
std::vector<NamedPlan> SomePlans(spec::Precision precision) {
  const std::vector<NamedPlan> plans = ConformancePlans(precision);
  std::vector<NamedPlan> some;
  for (size_t i = 0; i < plans.size(); i += 11) some.push_back(plans[i]);
  return some;
}

INSTANTIATE_TEST_SUITE_P(Layouts, ConformanceTest, ::testing::ValuesIn(ConformancePlans()),
                         TestNameOf);
INSTANTIATE_TEST_SUITE_P(Cover, ConformanceTest, ::testing::ValuesIn(CoverPlans()), TestNameOf);
INSTANTIATE_TEST_SUITE_P(Experts, ConformanceTest, ::testing::ValuesIn(ExpertPlans()), TestNameOf);
INSTANTIATE_TEST_SUITE_P(Bf16Experts, ConformanceTest,
                         ::testing::ValuesIn(ExpertPlans(spec::Precision::kBf16)), TestNameOf);
INSTANTIATE_TEST_SUITE_P(Bf16, ConformanceTest,
                         ::testing::ValuesIn(SomePlans(spec::Precision::kBf16)), TestNameOf);
INSTANTIATE_TEST_SUITE_P(Fp16, ConformanceTest,
                         ::testing::ValuesIn(SomePlans(spec::Precision::kFp16)), TestNameOf);

}  // namespace
}  // namespace tessera::testing
