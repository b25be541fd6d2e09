// What happened, or is predicted to happen, in one training step: written by the simulator and by
// the engine, joined action by action.
#pragma once

#include <string_view>
#include <vector>

#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {

struct TimedAction {
  Action action;
  double start_s = 0;
  double end_s = 0;
};

struct PipelineTimeline {
  std::vector<std::vector<TimedAction>> by_stage;
  double makespan_s = 0;
};

// What a rank does in a step beside the actions of the pipeline.
enum class PhaseKind : uint8_t {
  kReduceGradients,
  kWait,  // until all ranks are there: they need the gradient norm of all
  kOptimizer,
  kGatherParameters,
  kOther,  // clearing gradients, their norm
};
std::string_view ToString(PhaseKind kind);  // "reduce gradients", "wait for all ranks", ...

struct TimedPhase {
  PhaseKind kind = PhaseKind::kOther;
  double start_s = 0;
  double end_s = 0;
};

// Device memory that is held from a moment on.
struct MemorySample {
  double time_s = 0;
  int64_t num_bytes = 0;
};

// One step of one rank, or of any rank of a pipeline stage. All times are from the step's start.
struct RankTimeline {
  std::vector<TimedAction> actions;  // in the order of the schedule
  std::vector<TimedPhase> phases;
  std::vector<MemorySample> memory;  // ascending in time
};

}  // namespace tessera::spec
