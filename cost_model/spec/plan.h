// The contract between planner and engine.
#pragma once

#include <optional>
#include <string>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/model_spec.h"
#include "cost_model/spec/parallel_spec.h"
#include "cost_model/spec/step_report.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

inline constexpr int kPlanFormatVersion = 1;

struct Plan {
  ModelSpec model;
  ClusterSpec cluster;
  TrainingSpec training;
  ParallelSpec parallel;
  int num_devices = 1;
  int threads_per_rank = 0;  // CPU only; 0: cores / ranks, at least 1
  std::optional<StepReport> prediction;
};

}  // namespace tessera::spec
