// Schedules in which micro-batches go round several chunks of every stage.
#include <optional>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "cost_model/spec/pipeline_schedule.h"
#include "cost_model/spec/pipeline_stage_writer.h"

namespace tessera::spec {
namespace {

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

  // The forward passes alone, in the same rounds; of micro-batches from `end` on, which fill up the
  // last group, nothing.
  std::vector<Action> WriteForwardOnly(int end) && {
    const InterleavedOrder order(shape_, stage_);
    const auto add = [&](const Action& action) {
      if (action.microbatch < end) writer_.Add(action);
    };
    writer_.BeginExchange();
    add(order.Forward(ActionKind::kRecvForward, 0));
    for (int turn = 0; turn < num_passes_; ++turn) {
      add(order.Forward(ActionKind::kForward, turn));
      writer_.BeginExchange();
      add(order.Forward(ActionKind::kSendForward, turn));
      const std::optional<Action> send = ForwardFrom(turn);
      if (send && send->microbatch < end) {
        AddReceive(send, order.Forward(ActionKind::kRecvForward, turn + 1));
      }
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

bool FormGroups(int64_t num_microbatches, int64_t group_size, int64_t num_stages) {
  if (group_size < num_stages || group_size > num_microbatches) return false;
  const int64_t num_left = num_microbatches % group_size;
  return num_left == 0 || num_left >= num_stages;
}

PipelineSchedule MakeInterleaved(const InterleavedShape& shape) {
  CheckScheduleShape("interleaved", shape.num_stages, shape.num_microbatches);
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

PipelineSchedule MakeForwardOnly(const ParallelSpec& parallel, int num_microbatches) {
  const int num_stages = parallel.pipeline_parallel_size;
  CheckScheduleShape("forward only", num_stages, num_microbatches);
  PipelineSchedule schedule{.kind = parallel.schedule,
                            .num_stages = num_stages,
                            .num_chunks = parallel.virtual_pipeline_size,
                            .num_microbatches = num_microbatches,
                            .overlaps_transfers = parallel.overlap_pp_comm,
                            .is_forward_only = true};
  const InterleavedShape filled_up{
      .num_stages = num_stages,
      .num_chunks = schedule.num_chunks,
      .num_microbatches = (num_microbatches + num_stages - 1) / num_stages * num_stages,
      .group_size = num_stages,
      .overlaps_transfers = schedule.overlaps_transfers};
  for (int stage = 0; stage < num_stages; ++stage) {
    schedule.actions_by_stage.push_back(
        InterleavedStage(filled_up, stage).WriteForwardOnly(num_microbatches));
  }
  return schedule;
}

}  // namespace tessera::spec
