// The pipeline schedule: for every stage, the ordered list of actions of one training step. The
// only definition of it: the cost model's simulator prices the actions, the engine's executor runs
// them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

enum class ActionKind : uint8_t {
  kForward,
  kBackward,
  kSendForward,   // activation to the next virtual stage
  kRecvForward,   // activation from the previous virtual stage
  kSendBackward,  // gradient to the previous virtual stage
  kRecvBackward,  // gradient from the next virtual stage
  // A backward pass in two parts (Qi et al. 2023, arXiv:2401.10241): gradients of the inputs, which
  // the previous stage waits for, and gradients of the layers' weight matrices, which nobody does.
  kBackwardInput,
  kBackwardWeight,
};

constexpr bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
}
constexpr bool IsRecv(ActionKind kind) {
  return kind == ActionKind::kRecvForward || kind == ActionKind::kRecvBackward;
}
constexpr bool IsTransfer(ActionKind kind) { return IsSend(kind) || IsRecv(kind); }

struct Action {
  ActionKind kind = ActionKind::kForward;
  int virtual_stage = 0;  // the acting one, also of a receive; it sits on stage v % num_stages
  int microbatch = 0;     // 0-based within the step
  // Consecutive sends and receives with the same non-negative group are one exchange: posted
  // together, completed together (one NCCL group). -1 on compute actions.
  int exchange = -1;
  auto operator<=>(const Action&) const = default;
};

// The transfer at the other end: for a send the receive that takes it, for a receive the send that
// feeds it. Its exchange is left at -1. REQUIRES: IsTransfer(action.kind).
Action CounterpartOf(const Action& action);

struct PipelineSchedule {
  ScheduleKind kind = ScheduleKind::kOneForwardOneBackward;
  int num_stages = 1;
  int num_chunks = 1;
  int num_microbatches = 1;
  // Exchanges are posted in their place and go on behind what follows. A pass waits for the
  // exchange that receives its input; an exchange that sends is waited for, at the latest, before
  // the second one after it is posted.
  bool overlaps_transfers = false;
  bool is_forward_only = false;                       // nothing goes backward
  std::vector<std::vector<Action>> actions_by_stage;  // [num_stages]
  bool operator==(const PipelineSchedule&) const = default;
};

// Generators. Throw base::ConfigError where the shape breaks the schedule's own rule. All run the
// backward passes of a virtual stage in ascending micro-batch order, so gradients add up in the
// same order whatever the schedule. None transfers anything where num_stages is 1.

// All forward passes, then all backward passes. Huang et al. 2019, arXiv:1811.06965, Fig. 2.
PipelineSchedule MakeGPipe(int num_stages, int num_microbatches);
// Narayanan et al. 2021, arXiv:2104.04473, Fig. 4. Stage s keeps at most min(num_stages - s,
// num_microbatches) micro-batches in flight.
PipelineSchedule MakeOneForwardOneBackward(int num_stages, int num_microbatches);
// Same paper, section 2.2; micro-batches go through the chunks in groups, of num_stages where
// group_size is 0 (Megatron-LM's microbatch_group_size_per_virtual_pipeline_stage). At least 2
// stages and 2 chunks; a group is no smaller than num_stages and no larger than num_microbatches,
// and so is what is left of the micro-batches after whole groups, if anything. Where transfers
// overlap, what a forward pass sends and what the next one receives are exchanged behind the
// backward pass between them, and the other way round.
struct InterleavedShape {
  int num_stages = 2;
  int num_chunks = 2;
  int num_microbatches = 2;
  int group_size = 0;
  bool overlaps_transfers = false;
};
PipelineSchedule MakeInterleaved(const InterleavedShape& shape);
// Whether the micro-batches fall into groups as said above.
bool FormGroups(int64_t num_microbatches, int64_t group_size, int64_t num_stages);
// ZB-H1 of Qi et al. 2023, arXiv:2401.10241, Fig. 2 (top): passes in the order of 1F1B, backward
// passes in two parts; stage s puts its weight passes off by s micro-batches, so that it holds the
// num_stages micro-batches that the first stage of 1F1B holds.
PipelineSchedule MakeZeroBubbleH1(int num_stages, int num_microbatches);
// Forward passes alone, for a loss without gradients: micro-batches follow each other through the
// stages; of several chunks each takes as many as there are stages before the next one does. Any
// number of micro-batches will do.
PipelineSchedule MakeForwardOnly(const ParallelSpec& parallel, int num_microbatches);
// The schedule of a layout. Throws base::ConfigError also for virtual stages without interleaving.
PipelineSchedule MakeSchedule(const ParallelSpec& parallel, int num_microbatches);

// Most micro-batches of (stage, chunk) between forward and backward (its input part) at any time,
// by chunk.
std::vector<int> MaxInFlight(const PipelineSchedule& schedule, int stage);

// Everything wrong with a schedule, empty when valid: each forward and backward (or both its parts;
// none where it is forward only) once and on its stage, forward before backward, inputs before
// weights, each send matched by a receive in the same order per pair of stages, no deadlock when a
// send blocks until its receive is posted.
std::vector<std::string> ValidateSchedule(const PipelineSchedule& schedule);

// One stage as text: "0F0 [0SF0 0RB0] 0B0". Virtual stage, action, micro-batch; an exchange of
// several stands in brackets.
std::string ToString(const std::vector<Action>& actions);
std::string ToString(const Action& action);

}  // namespace tessera::spec
