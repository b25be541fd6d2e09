// Megatron-LM's arguments for a plan, as the exporters of programs built on it need them too.
#pragma once

#include "cost_model/spec/megatron_write.h"
#include "cost_model/spec/plan.h"
#include "cost_model/spec/runtime_spec.h"

namespace tessera::planner {

// All arguments of the plan, dropout as the runtime has it.
spec::MegatronCommand MegatronCommandOf(const spec::Plan& plan, const spec::RuntimeSpec& runtime);

}  // namespace tessera::planner
