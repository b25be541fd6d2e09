#include "cost_model/spec/pipeline_schedule.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "cost_model/spec/pipeline_stage_writer.h"

namespace tessera::spec {
namespace {

void WriteForward(StageWriter& writer, int stage, int microbatch) {
  writer.Exchange({{ActionKind::kRecvForward, stage, microbatch}});
  writer.Add({ActionKind::kForward, stage, microbatch});
  writer.Exchange({{ActionKind::kSendForward, stage, microbatch}});
}

void WriteBackward(StageWriter& writer, int stage, int microbatch) {
  writer.Exchange({{ActionKind::kRecvBackward, stage, microbatch}});
  writer.Add({ActionKind::kBackward, stage, microbatch});
  writer.Exchange({{ActionKind::kSendBackward, stage, microbatch}});
}

std::vector<Action> OneForwardOneBackwardStage(int stage, int num_stages, int num_microbatches) {
  StageWriter writer(num_stages, num_stages);
  // A stage fills the pipeline behind it before its first backward can arrive.
  const int num_warmup = std::min(num_stages - 1 - stage, num_microbatches);
  const int num_steady = num_microbatches - num_warmup;
  for (int microbatch = 0; microbatch < num_warmup; ++microbatch) {
    WriteForward(writer, stage, microbatch);
  }
  if (num_steady > 0) writer.Exchange({{ActionKind::kRecvForward, stage, num_warmup}});
  for (int backward = 0; backward < num_steady; ++backward) {
    const int forward = num_warmup + backward;
    writer.Add({ActionKind::kForward, stage, forward});
    // Both neighbours want to send at once here: a blocking send on either side would wait for the
    // other's for ever, so send and receive form one exchange.
    writer.Exchange(
        {{ActionKind::kSendForward, stage, forward}, {ActionKind::kRecvBackward, stage, backward}});
    writer.Add({ActionKind::kBackward, stage, backward});
    writer.Exchange({{ActionKind::kSendBackward, stage, backward}});
    if (backward + 1 < num_steady) writer.Add({ActionKind::kRecvForward, stage, forward + 1});
  }
  for (int microbatch = num_steady; microbatch < num_microbatches; ++microbatch) {
    WriteBackward(writer, stage, microbatch);
  }
  return writer.Take();
}

// As OneForwardOneBackwardStage, but that a weight pass stands between the send of a gradient and
// the next receive: nobody waits for it, so sending and receiving need no common exchange.
std::vector<Action> ZeroBubbleH1Stage(int stage, int num_stages, int num_microbatches) {
  StageWriter writer(num_stages, num_stages);
  const int num_warmup = std::min(num_stages - 1 - stage, num_microbatches);
  for (int microbatch = 0; microbatch < num_warmup; ++microbatch) {
    WriteForward(writer, stage, microbatch);
  }
  for (int backward = 0; backward < num_microbatches; ++backward) {
    const int forward = num_warmup + backward;
    if (forward < num_microbatches) {
      writer.Exchange({{ActionKind::kRecvForward, stage, forward}});
      writer.Add({ActionKind::kForward, stage, forward});
      writer.Exchange({{ActionKind::kSendForward, stage, forward},
                       {ActionKind::kRecvBackward, stage, backward}});
    } else {
      writer.Exchange({{ActionKind::kRecvBackward, stage, backward}});
    }
    writer.Add({ActionKind::kBackwardInput, stage, backward});
    writer.Exchange({{ActionKind::kSendBackward, stage, backward}});
    if (backward >= stage) writer.Add({ActionKind::kBackwardWeight, stage, backward - stage});
  }
  for (int weight = std::max(0, num_microbatches - stage); weight < num_microbatches; ++weight) {
    writer.Add({ActionKind::kBackwardWeight, stage, weight});
  }
  return writer.Take();
}

}  // namespace

Action CounterpartOf(const Action& action) {
  switch (action.kind) {
    case ActionKind::kSendForward:
      return {ActionKind::kRecvForward, action.virtual_stage + 1, action.microbatch};
    case ActionKind::kRecvForward:
      return {ActionKind::kSendForward, action.virtual_stage - 1, action.microbatch};
    case ActionKind::kSendBackward:
      return {ActionKind::kRecvBackward, action.virtual_stage - 1, action.microbatch};
    case ActionKind::kRecvBackward:
      return {ActionKind::kSendBackward, action.virtual_stage + 1, action.microbatch};
    default:
      base::FailCheck(__FILE__, __LINE__, "a transfer", ToString(action));
  }
}

PipelineSchedule MakeGPipe(int num_stages, int num_microbatches) {
  CheckScheduleShape("gpipe", num_stages, num_microbatches);
  PipelineSchedule schedule{
      .kind = ScheduleKind::kGPipe, .num_stages = num_stages, .num_microbatches = num_microbatches};
  for (int stage = 0; stage < num_stages; ++stage) {
    StageWriter writer(num_stages, num_stages);
    for (int microbatch = 0; microbatch < num_microbatches; ++microbatch) {
      WriteForward(writer, stage, microbatch);
    }
    for (int microbatch = 0; microbatch < num_microbatches; ++microbatch) {
      WriteBackward(writer, stage, microbatch);
    }
    schedule.actions_by_stage.push_back(writer.Take());
  }
  return schedule;
}

PipelineSchedule MakeOneForwardOneBackward(int num_stages, int num_microbatches) {
  CheckScheduleShape("1f1b", num_stages, num_microbatches);
  PipelineSchedule schedule{.kind = ScheduleKind::kOneForwardOneBackward,
                            .num_stages = num_stages,
                            .num_microbatches = num_microbatches};
  for (int stage = 0; stage < num_stages; ++stage) {
    schedule.actions_by_stage.push_back(
        OneForwardOneBackwardStage(stage, num_stages, num_microbatches));
  }
  return schedule;
}

PipelineSchedule MakeZeroBubbleH1(int num_stages, int num_microbatches) {
  CheckScheduleShape("zb-h1", num_stages, num_microbatches);
  PipelineSchedule schedule{.kind = ScheduleKind::kZeroBubbleH1,
                            .num_stages = num_stages,
                            .num_microbatches = num_microbatches};
  for (int stage = 0; stage < num_stages; ++stage) {
    schedule.actions_by_stage.push_back(ZeroBubbleH1Stage(stage, num_stages, num_microbatches));
  }
  return schedule;
}

PipelineSchedule MakeSchedule(const ParallelSpec& parallel, int num_microbatches) {
  const int num_stages = parallel.pipeline_parallel_size;
  const int num_chunks = parallel.virtual_pipeline_size;
  if (parallel.schedule != ScheduleKind::kInterleaved && num_chunks != 1) {
    throw base::ConfigError("schedule", std::string(ToString(parallel.schedule)),
                            base::Concat(num_chunks, " chunks per stage"),
                            "one, or the interleaved schedule");
  }
  PipelineSchedule schedule;
  switch (parallel.schedule) {
    case ScheduleKind::kGPipe:
      schedule = MakeGPipe(num_stages, num_microbatches);
      break;
    case ScheduleKind::kOneForwardOneBackward:
      schedule = MakeOneForwardOneBackward(num_stages, num_microbatches);
      break;
    case ScheduleKind::kInterleaved:
      schedule = MakeInterleaved({.num_stages = num_stages,
                                  .num_chunks = num_chunks,
                                  .num_microbatches = num_microbatches,
                                  .group_size = parallel.microbatch_group_size,
                                  .overlaps_transfers = parallel.overlap_pp_comm});
      break;
    case ScheduleKind::kZeroBubbleH1:
      schedule = MakeZeroBubbleH1(num_stages, num_microbatches);
      break;
  }
  schedule.overlaps_transfers = parallel.overlap_pp_comm;
  return schedule;
}

std::vector<int> MaxInFlight(const PipelineSchedule& schedule, int stage) {
  TESSERA_CHECK(stage >= 0 && stage < schedule.num_stages, "stage ", stage, " of ",
                schedule.num_stages);
  std::vector<int> in_flight(schedule.num_chunks, 0);
  std::vector<int> most(schedule.num_chunks, 0);
  for (const Action& action : schedule.actions_by_stage[stage]) {
    const int chunk = action.virtual_stage / schedule.num_stages;
    if (action.kind == ActionKind::kForward) {
      most[chunk] = std::max(most[chunk], ++in_flight[chunk]);
    } else if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput) {
      --in_flight[chunk];
    }
  }
  return most;
}

}  // namespace tessera::spec
