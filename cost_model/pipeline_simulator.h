// How long a pipeline takes for one training step: the real action list played with given costs.
#pragma once

#include <vector>

#include "cost_model/spec/pipeline_schedule.h"
#include "cost_model/spec/timeline.h"

namespace tessera::cost_model {

// Seconds of one micro-batch. The virtual stage that is v-th in the model has index v; boundary v
// lies between the virtual stages v and v + 1.
struct PipelineCosts {
  std::vector<double> forward_s;   // [num_virtual_stages]
  std::vector<double> backward_s;  // [num_virtual_stages], recomputation included
  // [num_virtual_stages], of the weight passes of schedules that have them; backward_s is the input
  // passes' then. Empty elsewhere.
  std::vector<double> backward_weight_s;
  std::vector<double> forward_transfer_s;   // [num_virtual_stages - 1], over boundary v
  std::vector<double> backward_transfer_s;  // [num_virtual_stages - 1], over boundary v
  double send_overhead_s = 0;               // of the sender, for each send
  // True: a send runs beside the sender's next passes. False: the sender waits for its arrival.
  bool transfers_overlap = true;
};

// Throws base::CheckFailure unless the vectors have the sizes above.
void CheckCosts(const PipelineCosts& costs, int num_virtual_stages);

// Where the time of one pipeline stage goes; the parts sum to the makespan.
struct PipelineStageTime {
  double forward_s = 0;
  double backward_s = 0;
  double send_s = 0;      // overhead of sends
  double transfer_s = 0;  // waiting while the data awaited is on its way
  double bubble_s = 0;  // waiting for a neighbour to start sending, and idle after the last action
  double Total() const { return forward_s + backward_s + send_s + transfer_s + bubble_s; }
};

struct PipelineResult {
  double makespan_s = 0;
  std::vector<PipelineStageTime> stages;  // [num_stages]
};

// Plays every action of `schedule`. An exchange starts all its sends, then waits for all its
// receives, or leaves that to the passes that read them where the schedule overlaps transfers; a
// message takes the boundary's transfer time, whatever else is on the way. Writes the
// predicted timeline, actions in the order of the schedule, when `timeline` is not null.
// Linear in the number of actions. Throws base::CheckFailure naming the actions that wait for ever.
PipelineResult SimulatePipeline(const spec::PipelineSchedule& schedule, const PipelineCosts& costs,
                                spec::PipelineTimeline* timeline = nullptr);

struct PipelineTime {
  double makespan_s = 0;
  std::vector<double> stage_end_s;  // [num_stages], when the stage's last action ends
};

// What a schedule is generated from.
struct PipelineShape {
  spec::ScheduleKind kind = spec::ScheduleKind::kOneForwardOneBackward;
  int num_stages = 1;
  int num_chunks = 1;
  int num_microbatches = 1;
  int group_size = 0;  // interleaved: see spec::InterleavedShape
  bool overlaps_transfers = false;
};

// The same times without the list of actions: the schedule's recurrence, cut short once it repeats
// itself. Equal to SimulatePipeline up to rounding. Takes the shapes that the
// generators of pipeline_schedule.h take.
PipelineTime FastPipelineTime(const PipelineShape& shape, const PipelineCosts& costs);

}  // namespace tessera::cost_model
