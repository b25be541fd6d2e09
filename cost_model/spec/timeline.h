// What happened, or is predicted to happen, in one pipeline step: written by the simulator and by
// the engine, joined action by action.
#pragma once

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

}  // namespace tessera::spec
