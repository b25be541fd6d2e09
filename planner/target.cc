#include "planner/target.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/spec/engine_limits.h"

namespace tessera::planner {
namespace {

using base::Concat;

bool Holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool RunsZeroStage(const Request& request, int stage) {
  const std::vector<int>& stages = request.target.zero_stages;
  if (stages.empty()) return stage <= request.job.runtime.max_zero_stage;
  return std::find(stages.begin(), stages.end(), stage) != stages.end();
}

bool AreStagesEven(const spec::ModelSpec& model, const spec::ParallelSpec& parallel) {
  const std::vector<int>& layers = parallel.layers_per_virtual_stage;
  if (layers.empty()) {
    return model.num_layers % (parallel.pipeline_parallel_size * parallel.virtual_pipeline_size) ==
           0;
  }
  return std::all_of(layers.begin(), layers.end(), [&](int n) { return n == layers.front(); });
}

// Whether every virtual stage recomputes as many of its layers, as far as it has them.
bool IsRecomputeAlike(const spec::ParallelSpec& parallel) {
  const std::vector<int>& recomputed = parallel.recomputed_layers_per_virtual_stage;
  if (recomputed.empty()) return true;
  const int most = *std::max_element(recomputed.begin(), recomputed.end());
  for (size_t i = 0; i < recomputed.size(); ++i) {
    const bool has_fewer = i < parallel.layers_per_virtual_stage.size() &&
                           parallel.layers_per_virtual_stage[i] <= recomputed[i];
    if (recomputed[i] != most && !has_fewer) return false;
  }
  return true;
}

spec::Violation CannotRun(const char* constraint, const spec::RuntimeSpec& runtime,
                          const std::string& what) {
  return {.constraint = constraint,
          .message = Concat(runtime.name, " does not run ", what),
          .needed = 1,
          .available = 0,
          .unit = ""};
}

std::optional<spec::Violation> FindAxisViolation(const Request& request,
                                                 const spec::ParallelSpec& parallel) {
  const spec::RuntimeSpec& runtime = request.job.runtime;
  if (parallel.context_parallel_size > 1) {
    if (!runtime.context_parallel) {
      return CannotRun("target context parallelism", runtime, "context parallelism");
    }
    const std::string_view kind = spec::ToString(parallel.context_kind);
    const std::vector<std::string>& kinds = request.target.context_kinds;
    if (!kinds.empty() && !Holds(kinds, kind)) {
      return CannotRun("target context kind", runtime,
                       Concat("context parallelism of kind ", kind));
    }
  }
  if (parallel.expert_parallel_size > 1 && !runtime.expert_parallel) {
    return CannotRun("target expert parallelism", runtime, "expert parallelism");
  }
  return std::nullopt;
}

}  // namespace

std::optional<spec::Violation> FindTargetViolation(const Request& request,
                                                   const spec::ParallelSpec& parallel) {
  const spec::RuntimeSpec& runtime = request.job.runtime;
  if (auto violation = FindAxisViolation(request, parallel)) return violation;
  const std::string_view schedule = spec::ToString(parallel.schedule);
  if (parallel.pipeline_parallel_size > 1 && !Holds(runtime.schedules, schedule)) {
    return CannotRun("target schedule", runtime, Concat("the ", schedule, " schedule"));
  }
  const bool shards = parallel.data_parallel_size * parallel.context_parallel_size > 1;
  if (shards && !RunsZeroStage(request, parallel.zero_stage)) {
    return CannotRun("target zero stage", runtime, Concat("ZeRO stage ", parallel.zero_stage));
  }
  if (!runtime.uneven_stages && !AreStagesEven(request.job.model, parallel)) {
    return CannotRun("target uneven stages", runtime, "pipeline stages of unequal depth");
  }
  if (!runtime.per_stage_recompute && !IsRecomputeAlike(parallel)) {
    return CannotRun("target per-stage recomputation", runtime,
                     "recomputation of other numbers of layers on other stages");
  }
  if (parallel.offload_optimizer && !runtime.optimizer_offload) {
    return CannotRun("target optimizer offload", runtime, "an optimizer on the host");
  }
  if ((parallel.overlap_tp_comm && !request.target.overlap_tp_comm) ||
      (parallel.overlap_pp_comm && !request.target.overlap_pp_comm) ||
      (parallel.overlap_param_gather && !request.target.overlap_param_gather)) {
    return CannotRun("target overlap", runtime, "that communication beside computation");
  }
  return FindEngineViolation(request, parallel);
}

std::optional<spec::Violation> FindEngineViolation(const Request& request,
                                                   const spec::ParallelSpec& parallel) {
  if (!request.target.is_own_engine) return std::nullopt;
  const cost_model::Job& job = request.job;
  std::vector<spec::Violation> limits = spec::FindEngineLimits(job.model, job.training, parallel);
  if (limits.empty()) return std::nullopt;
  return std::move(limits.front());
}

}  // namespace tessera::planner
