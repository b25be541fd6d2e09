// Where the time of a rank's step goes, on the clock of its device: marks are put into the order of
// its operations while the host calls them, and read once the device has caught up. On the CPU,
// where an operation has run when its call returns, that is the host's clock.
//
//   forward, backward   passes, less the communication within them
//   tp_comm             from the call of a tensor-parallel collective until its result can be used
//   cp_comm             the same of context-parallel collectives; of blocks that travel round a
//                       ring what is waited for after the step that they travel beside
//   ep_comm             the same of what goes to the experts and back
//   pipeline wait       exchanges of the schedule, or waiting for those under way, and blocked at
//                       the meeting of all ranks
//   dp_comm             reducing gradients, gathering parameters, as far as they are not hidden: in
//                       phases of their own, or in passes that wait for shards
#pragma once

#include <utility>
#include <vector>

#include "cost_model/spec/step_report.h"
#include "cost_model/spec/timeline.h"
#include "engine/pipeline/schedule_executor.h"
#include "engine/tensor/span_log.h"

namespace tessera::engine {

// What was marked in one step; its first mark is the step's start.
struct StepMarks {
  MarkedTimeline pipeline;
  std::vector<MarkedSpan> tensor_comm;
  std::vector<MarkedSpan> shard_comm;
  std::vector<MarkedSpan> expert_comm;
  std::vector<MarkedSpan> context_comm;
  std::vector<std::pair<spec::PhaseKind, MarkedSpan>> phases;
};

// `times_s`: of each mark, the last one the step's end.
spec::RankTimeline TimelineOf(const StepMarks& marks, const std::vector<double>& times_s);

// `blocked_s`: how long the host was blocked at the meeting of all ranks; the rest of that phase is
// other work.
spec::TimeBreakdown BreakdownOf(const StepMarks& marks, const std::vector<double>& times_s,
                                double blocked_s);

}  // namespace tessera::engine
