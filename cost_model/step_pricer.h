// Prices many layouts, one after the other.
#pragma once

#include <optional>

#include "cost_model/pipeline_run.h"
#include "cost_model/step_parts.h"

namespace tessera::cost_model {

// Layouts that differ from the one before in how a step ends alone (ZeRO stages that shard no
// passes, overlap_param_gather) share its pipeline.
class StepPricer {
 public:
  // Keeps the reference.
  explicit StepPricer(JobCosts& costs) : costs_(costs) {}

  // PriceStepFast's time. REQUIRES: FindViolations and FindUnpriced are empty.
  double StepSeconds(const spec::ParallelSpec& parallel);

  // Of the layout priced last.
  const StepParts& parts() const { return parts_; }

 private:
  JobCosts& costs_;
  std::optional<spec::ParallelSpec> last_;
  StepParts parts_;
  PipelineRun run_;
};

}  // namespace tessera::cost_model
