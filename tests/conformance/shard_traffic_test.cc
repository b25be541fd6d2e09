// What ranks that hold shards gather and scatter in a step, against what is priced for it.
#include <gtest/gtest.h>

#include "cost_model/base/check.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/conformance_run.h"

namespace tessera::testing {
namespace {

struct Traffic {
  int64_t gathered = 0;  // elements, whole
  int64_t scattered = 0;
  bool operator==(const Traffic&) const = default;
};

// A forward pass gathers all parts, a backward pass the layers again, and all gradients are
// scattered: cost_model/sharded_parameters.h. Elements of the parts as ranks place them.
Traffic PricedTraffic(const spec::Plan& plan, const RankOutcome& rank) {
  const spec::FlatLayout layout = MakeFlatLayout(rank.parameters, plan.parallel);
  Traffic of_microbatch;
  for (const spec::FlatBucket& bucket : layout.buckets) {
    const bool is_layer = rank.parameters[static_cast<size_t>(bucket.first_parameter)].layer >= 0;
    of_microbatch.gathered += bucket.num_elements * (is_layer ? 2 : 1);
    of_microbatch.scattered += bucket.num_elements;
  }
  const int64_t num_microbatches = spec::NumMicrobatches(plan.training, plan.parallel);
  // Stage 2 gathers what the update has changed, once.
  const int64_t gathered = plan.parallel.zero_stage == 3 ? num_microbatches * of_microbatch.gathered
                                                         : layout.num_elements;
  return {.gathered = gathered, .scattered = num_microbatches * of_microbatch.scattered};
}

Traffic RecordedTraffic(const RankOutcome& rank) {
  Traffic traffic;
  for (const base::OpRecord& record : rank.records) {
    if (!IsShardTraffic(record)) continue;
    if (record.kind == base::OpKind::kAllGather) traffic.gathered += record.dims[0];
    if (record.kind == base::OpKind::kReduceScatter) traffic.scattered += record.dims[0];
  }
  return traffic;
}

TEST(ShardTrafficTest, EachMicrobatchMovesWhatIsPriced) {
  for (NamedPlan& named : ConformancePlans()) {
    spec::Plan& plan = named.plan;
    const int dp = plan.parallel.data_parallel_size;
    // GPipe comes back to a head that other micro-batches have displaced.
    if (dp == 1 || plan.parallel.schedule != spec::ScheduleKind::kOneForwardOneBackward) continue;
    for (const int zero_stage : {2, 3}) {
      plan.parallel.zero_stage = zero_stage;
      if (!spec::ReducesEachMicrobatch(plan.parallel)) continue;
      for (const bool overlaps : {false, true}) {
        plan.parallel.overlap_grad_reduce = overlaps;
        plan.cluster.shared_compute_units = overlaps ? 0 : 1;
        SCOPED_TRACE(base::Concat(named.name, ", zero ", zero_stage));
        const auto make_device = [](engine::Communicator& world) {
          return engine::MakeRankDevice({}, world);
        };
        for (const RankOutcome& rank : RunPlan(plan, make_device)) {
          const Traffic recorded = RecordedTraffic(rank);
          const Traffic priced = PricedTraffic(plan, rank);
          EXPECT_EQ(recorded.gathered, priced.gathered);
          EXPECT_EQ(recorded.scattered, priced.scattered);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::testing
