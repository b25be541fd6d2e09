#include "engine/train/engine_limits.h"

#include <utility>
#include <vector>

#include "cost_model/base/error.h"
#include "cost_model/spec/engine_limits.h"

namespace tessera::engine {

void CheckExecutable(const spec::Plan& plan) {
  std::vector<spec::Violation> violations =
      spec::FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices);
  for (spec::Violation& limit : spec::FindEngineLimits(plan.model, plan.training, plan.parallel)) {
    violations.push_back(std::move(limit));
  }
  std::string message;
  for (const spec::Violation& violation : violations) {
    message += (message.empty() ? "" : "; ") + violation.message;
  }
  if (!message.empty()) throw base::InfeasibleError("the plan cannot be run: " + message);
}

}  // namespace tessera::engine
