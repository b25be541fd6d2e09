#include "cost_model/step_pricer.h"

#include "cost_model/spec/flat_layout.h"
#include "cost_model/step_account.h"

namespace tessera::cost_model {
namespace {

// Whether the passes of both are the same. Leaves `other` as it was.
bool ShareAPipeline(const spec::ParallelSpec& parallel, spec::ParallelSpec& other) {
  if (spec::ReducesEachMicrobatch(parallel) || spec::ReducesEachMicrobatch(other)) return false;
  const int zero_stage = other.zero_stage;
  const bool overlap_param_gather = other.overlap_param_gather;
  other.zero_stage = parallel.zero_stage;
  other.overlap_param_gather = parallel.overlap_param_gather;
  const bool is_shared = parallel == other;
  other.zero_stage = zero_stage;
  other.overlap_param_gather = overlap_param_gather;
  return is_shared;
}

}  // namespace

double StepPricer::StepSeconds(const spec::ParallelSpec& parallel) {
  if (last_ && ShareAPipeline(parallel, *last_)) {
    if (parallel.zero_stage != last_->zero_stage) SetUpdates(costs_, parallel, parts_);
    last_->zero_stage = parallel.zero_stage;
    last_->overlap_param_gather = parallel.overlap_param_gather;
  } else {
    parts_ = MakeStepParts(costs_, parallel);
    run_ = RunPipelineFast(costs_, parallel, parts_);
    last_ = parallel;
  }
  return AccountStep(costs_, parallel, parts_, run_).Total();
}

}  // namespace tessera::cost_model
