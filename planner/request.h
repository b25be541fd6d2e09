// What the planner is asked: a job, and which axes of the layout are fixed.
#pragma once

#include <optional>

#include "cost_model/job_costs.h"

namespace tessera::planner {

// Axes that have a value are fixed, the others are searched.
struct PinnedAxes {
  std::optional<int> tensor_parallel_size;
  std::optional<int> pipeline_parallel_size;
  std::optional<int> data_parallel_size;
  std::optional<int> virtual_pipeline_size;
  std::optional<int64_t> micro_batch_size;
  std::optional<bool> sequence_parallel;
  std::optional<spec::Recompute> recompute;
  std::optional<int> zero_stage;
  std::optional<spec::ScheduleKind> schedule;
};

struct Request {
  cost_model::Job job;
  PinnedAxes pins;
  // What is not searched: attention, context- and expert-parallel size, rank order, buckets.
  spec::ParallelSpec fixed;
  int num_rows = 10;  // of the ranking
};

}  // namespace tessera::planner
