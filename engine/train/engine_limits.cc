#include "engine/train/engine_limits.h"

#include <vector>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

std::vector<std::string> Unsupported(const spec::Plan& plan) {
  std::vector<std::string> reasons;
  const spec::ParallelSpec& parallel = plan.parallel;
  if (parallel.context_parallel_size > 1) {
    reasons.push_back(base::Concat("context parallelism ", parallel.context_parallel_size,
                                   " is planned but not executed yet, use --cp 1"));
  }
  if (parallel.expert_parallel_size > 1 || plan.model.moe) {
    reasons.push_back("mixture-of-experts models are planned but not executed yet");
  }
  if (parallel.zero_stage > 1) {
    reasons.push_back(base::Concat("zero stage ", parallel.zero_stage,
                                   " is planned but not executed yet, use --zero-stage 0 or 1"));
  }
  if (plan.training.precision != spec::Precision::kFp32) {
    reasons.push_back(base::Concat("precision ", spec::ToString(plan.training.precision),
                                   " has no CPU execution yet, use --precision fp32"));
  }
  return reasons;
}

}  // namespace

void CheckExecutable(const spec::Plan& plan) {
  std::string message;
  for (const spec::Violation& violation :
       spec::FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices)) {
    message += (message.empty() ? "" : "; ") + violation.message;
  }
  for (const std::string& reason : Unsupported(plan)) {
    message += (message.empty() ? "" : "; ") + reason;
  }
  if (!message.empty()) throw base::InfeasibleError("the plan cannot be run: " + message);
}

}  // namespace tessera::engine
