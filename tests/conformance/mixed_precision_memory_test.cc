// Memory of 16-bit training on devices of their own: predicted, counted, and held by one arena.
#include <gtest/gtest.h>

#include "cost_model/base/check.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/conformance_run.h"
#include "tests/testing/counting_backend.h"

namespace tessera::testing {
namespace {

void ExpectMemoryHolds(spec::Plan plan) {
  plan.cluster.shared_compute_units = 0;
  plan = WithPredictedMemory(plan);
  for (const RankOutcome& rank : RunPlan(plan, MakeCountingDevice)) {
    SCOPED_TRACE(base::Concat("pp rank ", rank.coord.pipeline, ", tp rank ", rank.coord.tensor));
    ExpectPredictedMemory(plan, rank);
    if (!plan.parallel.overlap_grad_reduce) ExpectPlannedOperations(plan, rank);
  }
}

TEST(MixedPrecisionMemoryTest, TheEngineAllocatesWhatWasPredicted) {
  for (const spec::Precision precision : {spec::Precision::kBf16, spec::Precision::kFp16}) {
    for (const NamedPlan& named : ConformancePlans(precision)) {
      SCOPED_TRACE(named.name);
      ExpectMemoryHolds(named.plan);
    }
  }
}

TEST(MixedPrecisionMemoryTest, ReducingGradientsBehindThePassTakesNoMore) {
  for (NamedPlan& named : ConformancePlans(spec::Precision::kBf16)) {
    SCOPED_TRACE(named.name);
    named.plan.parallel.overlap_grad_reduce = true;
    ExpectMemoryHolds(named.plan);
  }
}

// Blocks of many sizes that outweigh their rounding: what does not fit has no excuse.
TEST(MixedPrecisionMemoryTest, TheArenaHoldsActivationsOfEveryKind) {
  spec::Plan plan = ConformancePlans(spec::Precision::kBf16).front().plan;
  plan.model.num_layers = 8;
  plan.model.hidden_size = 192;
  plan.model.head_dim = 48;
  plan.model.ffn_hidden_size = 760;
  plan.model.vocab_size = 5003;
  plan.model.max_sequence_length = plan.training.sequence_length = 500;
  plan.training.global_batch_size = 24;
  for (const auto recompute :
       {spec::Recompute::kNone, spec::Recompute::kSelective, spec::Recompute::kFull}) {
    for (const auto schedule : {spec::ScheduleKind::kOneForwardOneBackward,
                                spec::ScheduleKind::kInterleaved, spec::ScheduleKind::kGPipe}) {
      plan.parallel = {.tensor_parallel_size = 2,
                       .pipeline_parallel_size = 2,
                       .micro_batch_size = 3,
                       .sequence_parallel = true,
                       .recompute = recompute,
                       .schedule = schedule};
      if (schedule == spec::ScheduleKind::kInterleaved) plan.parallel.virtual_pipeline_size = 2;
      plan.num_devices = spec::WorldSize(plan.parallel);
      SCOPED_TRACE(base::Concat(ToString(recompute), " ", ToString(schedule)));
      ExpectMemoryHolds(plan);
    }
  }
}

}  // namespace
}  // namespace tessera::testing
