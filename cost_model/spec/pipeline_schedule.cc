#include "cost_model/spec/pipeline_schedule.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

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

// The passes of one stage of an interleaved schedule, numbered in order: a group of micro-batches
// goes through one chunk after the other, backward through the chunks in reverse. The last group
// may be smaller.
class InterleavedOrder {
 public:
  InterleavedOrder(const InterleavedShape& shape, int stage)
      : stage_(stage),
        num_stages_(shape.num_stages),
        num_chunks_(shape.num_chunks),
        group_size_(shape.group_size),
        num_in_groups_(shape.num_microbatches / shape.group_size * shape.group_size),
        last_group_size_(shape.num_microbatches - num_in_groups_) {}

  Action Forward(ActionKind kind, int pass) const { return Of(kind, pass, ChunkOf(pass)); }
  Action Backward(ActionKind kind, int pass) const {
    return Of(kind, pass, num_chunks_ - 1 - ChunkOf(pass));
  }

 private:
  Action Of(ActionKind kind, int pass, int chunk) const {
    return {kind, chunk * num_stages_ + stage_, MicrobatchOf(pass)};
  }
  // Also asked of the pass behind the last one.
  bool IsInLastGroup(int pass) const {
    return last_group_size_ > 0 && pass >= num_in_groups_ * num_chunks_;
  }
  int ChunkOf(int pass) const {
    return IsInLastGroup(pass) ? (pass - num_in_groups_ * num_chunks_) / last_group_size_
                               : pass / group_size_ % num_chunks_;
  }
  int MicrobatchOf(int pass) const {
    return IsInLastGroup(pass)
               ? num_in_groups_ + (pass - num_in_groups_ * num_chunks_) % last_group_size_
               : pass / (group_size_ * num_chunks_) * group_size_ + pass % group_size_;
  }

  int stage_;
  int num_stages_;
  int num_chunks_;
  int group_size_;
  int num_in_groups_;    // micro-batches
  int last_group_size_;  // 0: all groups are alike
};

// Every turn is one forward and one backward pass, as far as they exist. Turn t of stage s belongs
// to round t + s. In round r stage s runs forward pass r - s and backward pass r - s less its
// warm-up, and receives what its neighbours send in that round: so all stages post each other's
// counterparts in the same round, in the same order. Hence no deadlock. With groups larger than the
// pipeline the first stage receives from the last one, and gradients the other way round, some
// turns before their own.
class InterleavedStage {
 public:
  InterleavedStage(const InterleavedShape& shape, int stage)
      : shape_(shape),
        stage_(stage),
        num_passes_(shape.num_microbatches * shape.num_chunks),
        num_rounds_to_fill_(2 * (shape.num_stages - 1) + (shape.num_chunks - 1) * shape.group_size),
        writer_(shape.num_stages, shape.num_stages * shape.num_chunks) {}

  std::vector<Action> Write() && {
    const InterleavedOrder order(shape_, stage_);
    // Turns before the first backward pass; with few micro-batches some have no forward pass
    // either.
    const int num_warmup = num_rounds_to_fill_ - 2 * stage_;
    writer_.Exchange({order.Forward(ActionKind::kRecvForward, 0)});
    for (int turn = 0; turn < num_warmup + num_passes_; ++turn) {
      const int back = turn - num_warmup;
      const bool has_forward = turn < num_passes_;
      const bool has_backward = back >= 0;
      if (has_forward) writer_.Add(order.Forward(ActionKind::kForward, turn));
      if (shape_.overlaps_transfers) {
        writer_.BeginExchange();
        if (has_forward) writer_.Add(order.Forward(ActionKind::kSendForward, turn));
        AddReceive(ForwardFrom(turn), order.Forward(ActionKind::kRecvForward, turn + 1));
      }
      if (has_backward) writer_.Add(order.Backward(ActionKind::kBackward, back));
      writer_.BeginExchange();
      if (has_forward && !shape_.overlaps_transfers) {
        writer_.Add(order.Forward(ActionKind::kSendForward, turn));
      }
      if (has_backward) writer_.Add(order.Backward(ActionKind::kSendBackward, back));
      if (!shape_.overlaps_transfers) AddReceive(ForwardFrom(turn), {});
      AddReceive(BackwardFrom(turn), order.Backward(ActionKind::kRecvBackward, back + 1));
    }
    return writer_.Take();
  }

 private:
  // What the stage before this one, or the last one, sends in the round of a turn; none where its
  // pass does not exist or ends at the loss.
  std::optional<Action> ForwardFrom(int turn) const {
    const int sender = stage_ > 0 ? stage_ - 1 : shape_.num_stages - 1;
    const int pass = turn + stage_ - sender;
    if (pass < 0 || pass >= num_passes_) return std::nullopt;
    const Action send = InterleavedOrder(shape_, sender).Forward(ActionKind::kSendForward, pass);
    if (send.virtual_stage + 1 == shape_.num_stages * shape_.num_chunks) return std::nullopt;
    return send;
  }
  // The same of gradients, from the stage behind or the first one.
  std::optional<Action> BackwardFrom(int turn) const {
    const int sender = stage_ + 1 < shape_.num_stages ? stage_ + 1 : 0;
    const int pass = turn + stage_ - sender - (num_rounds_to_fill_ - 2 * sender);
    if (pass < 0 || pass >= num_passes_) return std::nullopt;
    const Action send = InterleavedOrder(shape_, sender).Backward(ActionKind::kSendBackward, pass);
    if (send.virtual_stage == 0) return std::nullopt;
    return send;
  }

  // Overlapped, a message for a later turn than the next one, whose receive is `next`, has an
  // exchange of its own, for which nothing else waits.
  void AddReceive(const std::optional<Action>& send, const Action& next) {
    if (!send) return;
    const Action receive = CounterpartOf(*send);
    if (shape_.overlaps_transfers && receive != next) writer_.BeginExchange();
    writer_.Add(receive);
  }

  InterleavedShape shape_;
  int stage_;
  int num_passes_;
  int num_rounds_to_fill_;  // from the first pass on, until every stage has run a backward pass
  StageWriter writer_;
};

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
  CheckShape("1f1b", num_stages, num_microbatches);
  PipelineSchedule schedule{.kind = ScheduleKind::kOneForwardOneBackward,
                            .num_stages = num_stages,
                            .num_microbatches = num_microbatches};
  for (int stage = 0; stage < num_stages; ++stage) {
    schedule.actions_by_stage.push_back(
        OneForwardOneBackwardStage(stage, num_stages, num_microbatches));
  }
  return schedule;
}

bool FormGroups(int64_t num_microbatches, int64_t group_size, int64_t num_stages) {
  if (group_size < num_stages || group_size > num_microbatches) return false;
  const int64_t num_left = num_microbatches % group_size;
  return num_left == 0 || num_left >= num_stages;
}

PipelineSchedule MakeInterleaved(const InterleavedShape& shape) {
  CheckShape("interleaved", shape.num_stages, shape.num_microbatches);
  if (shape.num_stages < 2 || shape.num_chunks < 2) {
    throw base::ConfigError(
        "schedule", "interleaved",
        base::Concat(shape.num_stages, " stages of ", shape.num_chunks, " chunks"),
        "at least two of each");
  }
  InterleavedShape whole = shape;
  if (whole.group_size == 0) whole.group_size = shape.num_stages;
  if (!FormGroups(shape.num_microbatches, whole.group_size, shape.num_stages)) {
    throw base::ConfigError(
        "schedule", "interleaved",
        base::Concat(shape.num_microbatches, " micro-batches in groups of ", whole.group_size),
        base::Concat("groups, a smaller last one too, of at least the ", shape.num_stages,
                     " stages"));
  }
  PipelineSchedule schedule{.kind = ScheduleKind::kInterleaved,
                            .num_stages = shape.num_stages,
                            .num_chunks = shape.num_chunks,
                            .num_microbatches = shape.num_microbatches,
                            .overlaps_transfers = shape.overlaps_transfers};
  for (int stage = 0; stage < shape.num_stages; ++stage) {
    schedule.actions_by_stage.push_back(InterleavedStage(whole, stage).Write());
  }
  return schedule;
}

PipelineSchedule MakeZeroBubbleH1(int num_stages, int num_microbatches) {
  CheckShape("zb-h1", num_stages, num_microbatches);
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
