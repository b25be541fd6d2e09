// What the planner is asked: a job, which axes of the layout are fixed, and what counts as best.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/job_costs.h"

namespace tessera::planner {

// Axes that have a value are fixed, the others are searched.
struct PinnedAxes {
  std::optional<int> tensor_parallel_size;
  std::optional<int> pipeline_parallel_size;
  std::optional<int> data_parallel_size;
  std::optional<int> context_parallel_size;
  std::optional<int> expert_parallel_size;
  std::optional<int> expert_tensor_parallel_size;
  std::optional<int> virtual_pipeline_size;
  std::optional<int64_t> micro_batch_size;
  std::optional<bool> sequence_parallel;
  std::optional<spec::Recompute> recompute;
  // Layers that each virtual stage recomputes in full, as far as it has them.
  std::optional<int> num_recomputed_layers;
  std::optional<int> zero_stage;
  std::optional<spec::ScheduleKind> schedule;
  std::optional<spec::ContextKind> context_kind;
};

enum class Objective : uint8_t {
  kThroughput,  // the least step time
  kCost,        // the least device-hours, with fewer devices too
  kMemory,      // the most memory left, among layouts within `slack_share` of the least step time
};

std::string_view ToString(Objective objective);  // "throughput", "cost", "memory"
std::optional<Objective> ObjectiveFromString(std::string_view text);

// How far apart two estimates must be before one layout can be called the faster.
struct ErrorBand {
  double share = 0;  // of the step time
  std::string source;
};

// What else the program that a plan is for can run, beside what its runtime says.
struct TargetLimits {
  std::vector<int> zero_stages;            // the only ones; empty: all up to the runtime's
  std::vector<std::string> context_kinds;  // the only ones; empty: all
  bool overlap_param_gather = false;
  bool overlap_tp_comm = false;
  bool overlap_pp_comm = false;
  bool is_own_engine = false;  // runs what spec::FindEngineLimits has nothing against
};

struct Request {
  // The job's runtime is the program to plan for: nothing that it cannot run is recommended.
  cost_model::Job job;
  TargetLimits target;
  PinnedAxes pins;
  // What is not searched: attention, rank order, buckets, and, unless empty, the layers of stages.
  spec::ParallelSpec fixed;
  int num_rows = 10;  // of the ranking
  Objective objective = Objective::kThroughput;
  double slack_share = 0.03;
  ErrorBand error_band;
};

}  // namespace tessera::planner
