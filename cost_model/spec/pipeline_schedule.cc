#include "cost_model/spec/pipeline_schedule.h"

#include <algorithm>
#include <initializer_list>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"

namespace tessera::spec {
namespace {

// Writes the actions of one stage in order. Transfers over the pipeline's ends do not exist and are
// left out, so the generators need not mind which stage they write.
class StageWriter {
 public:
  StageWriter(int num_stages, int num_virtual_stages)
      : has_transfers_(num_stages > 1), last_virtual_stage_(num_virtual_stages - 1) {}

  void Add(Action action) {
    if (IsTransfer(action.kind)) {
      if (!Exists(action)) return;
      action.exchange = exchange_;
    }
    actions_.push_back(action);
  }

  // The transfers added from here on are posted together and completed together.
  void BeginExchange() { ++exchange_; }

  void Exchange(std::initializer_list<Action> transfers) {
    BeginExchange();
    for (const Action& transfer : transfers) Add(transfer);
  }

  std::vector<Action> Take() { return std::move(actions_); }

 private:
  bool Exists(const Action& transfer) const {
    const bool with_next =
        transfer.kind == ActionKind::kSendForward || transfer.kind == ActionKind::kRecvBackward;
    return has_transfers_ &&
           (with_next ? transfer.virtual_stage < last_virtual_stage_ : transfer.virtual_stage > 0);
  }

  bool has_transfers_;
  int last_virtual_stage_;
  int exchange_ = -1;
  std::vector<Action> actions_;
};

void CheckShape(std::string_view name, int num_stages, int num_microbatches) {
  if (num_stages < 1 || num_microbatches < 1) {
    throw base::ConfigError(
        "schedule", std::string(name),
        base::Concat(num_stages, " stages and ", num_microbatches, " micro-batches"),
        "at least one of each");
  }
}

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

// The passes of one stage of an interleaved schedule, numbered in order: groups of num_stages
// micro-batches go through one chunk after the other, backward through the chunks in reverse.
struct InterleavedOrder {
  int stage;
  int num_stages;
  int num_chunks;

  Action Forward(ActionKind kind, int pass) const {
    return {kind, ChunkOf(pass) * num_stages + stage, MicrobatchOf(pass)};
  }
  Action Backward(ActionKind kind, int pass) const {
    return {kind, (num_chunks - 1 - ChunkOf(pass)) * num_stages + stage, MicrobatchOf(pass)};
  }
  int ChunkOf(int pass) const { return pass / num_stages % num_chunks; }
  int MicrobatchOf(int pass) const {
    return pass / (num_stages * num_chunks) * num_stages + pass % num_stages;
  }
};

// Every turn is one forward and one backward pass, as far as they exist, and then one exchange of
// all that they send and all that the next turn needs. Turn t of stage s meets turn t - 1 of stage
// s + 1, and turn t of the last stage meets turn t + num_stages - 1 of the first: numbered by t +
// s, all stages post each other's counterparts in the same round, in the same order. Hence no
// deadlock.
std::vector<Action> InterleavedStage(int stage, int num_stages, int num_chunks,
                                     int num_microbatches) {
  StageWriter writer(num_stages, num_stages * num_chunks);
  const InterleavedOrder order{stage, num_stages, num_chunks};
  const int num_passes = num_microbatches * num_chunks;
  // Turns before the first backward pass; with few micro-batches some have no forward pass either.
  const int num_warmup = (num_stages - 1 - stage) * 2 + (num_chunks - 1) * num_stages;
  writer.Exchange({order.Forward(ActionKind::kRecvForward, 0)});
  for (int turn = 0; turn < num_warmup + num_passes; ++turn) {
    const int back = turn - num_warmup;
    const bool has_forward = turn < num_passes;
    const bool has_backward = back >= 0;
    if (has_forward) writer.Add(order.Forward(ActionKind::kForward, turn));
    if (has_backward) writer.Add(order.Backward(ActionKind::kBackward, back));
    writer.BeginExchange();
    if (has_forward) writer.Add(order.Forward(ActionKind::kSendForward, turn));
    if (has_backward) writer.Add(order.Backward(ActionKind::kSendBackward, back));
    if (turn + 1 < num_passes) writer.Add(order.Forward(ActionKind::kRecvForward, turn + 1));
    if (back + 1 >= 0 && back + 1 < num_passes) {
      writer.Add(order.Backward(ActionKind::kRecvBackward, back + 1));
    }
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
  CheckShape("gpipe", num_stages, num_microbatches);
  PipelineSchedule schedule{ScheduleKind::kGPipe, num_stages, 1, num_microbatches, {}};
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
  CheckShape("1f1b", num_stages, num_microbatches);
  PipelineSchedule schedule{
      ScheduleKind::kOneForwardOneBackward, num_stages, 1, num_microbatches, {}};
  for (int stage = 0; stage < num_stages; ++stage) {
    schedule.actions_by_stage.push_back(
        OneForwardOneBackwardStage(stage, num_stages, num_microbatches));
  }
  return schedule;
}

PipelineSchedule MakeInterleaved(int num_stages, int num_chunks, int num_microbatches) {
  CheckShape("interleaved", num_stages, num_microbatches);
  if (num_stages < 2 || num_chunks < 2) {
    throw base::ConfigError("schedule", "interleaved",
                            base::Concat(num_stages, " stages of ", num_chunks, " chunks"),
                            "at least two of each");
  }
  if (num_microbatches % num_stages != 0) {
    throw base::ConfigError("schedule", "interleaved",
                            base::Concat(num_microbatches, " micro-batches"),
                            base::Concat("a multiple of the ", num_stages, " stages"));
  }
  PipelineSchedule schedule{
      ScheduleKind::kInterleaved, num_stages, num_chunks, num_microbatches, {}};
  for (int stage = 0; stage < num_stages; ++stage) {
    schedule.actions_by_stage.push_back(
        InterleavedStage(stage, num_stages, num_chunks, num_microbatches));
  }
  return schedule;
}

PipelineSchedule MakeZeroBubbleH1(int num_stages, int num_microbatches) {
  CheckShape("zb-h1", num_stages, num_microbatches);
  PipelineSchedule schedule{ScheduleKind::kZeroBubbleH1, num_stages, 1, num_microbatches, {}};
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
  switch (parallel.schedule) {
    case ScheduleKind::kGPipe:
      return MakeGPipe(num_stages, num_microbatches);
    case ScheduleKind::kOneForwardOneBackward:
      return MakeOneForwardOneBackward(num_stages, num_microbatches);
    case ScheduleKind::kInterleaved:
      return MakeInterleaved(num_stages, num_chunks, num_microbatches);
    case ScheduleKind::kZeroBubbleH1:
      return MakeZeroBubbleH1(num_stages, num_microbatches);
  }
  base::FailCheck(__FILE__, __LINE__, "known ScheduleKind", static_cast<int>(parallel.schedule));
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
