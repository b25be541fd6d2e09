#include "cost_model/spec/activation_peak.h"

#include <algorithm>

#include "cost_model/base/check.h"

namespace tessera::spec {
namespace {

int64_t OneForwardOneBackwardPeak(int64_t in_flight, const StageActivationBytes& bytes) {
  return (in_flight - 1) * bytes.saved_bytes + bytes.working_bytes;
}

// Backward pass b meets the operands of min(b, stage) weight passes put off. Beside it `num_warmup`
// micro-batches are held while forward passes last, then one less with each.
int64_t ZeroBubbleH1Peak(int64_t num_warmup, int64_t num_microbatches, int64_t stage,
                         const StageActivationBytes& bytes) {
  const int64_t first_without = num_microbatches - num_warmup;  // backward pass without a forward
  const int64_t last = num_microbatches - 1;
  const int64_t running = bytes.input_part_bytes;  // no less than a forward pass takes
  int64_t peak = 0;
  if (first_without > 0) {
    const int64_t put_off = std::min(first_without - 1, stage);
    peak = num_warmup * bytes.saved_bytes + put_off * bytes.weight_operand_bytes + running;
  }
  if (num_warmup == 0) return peak;
  // From there on operands pile up to `stage` of them while micro-batches leave: linear up to that
  // pass and after it.
  for (const int64_t backward : {first_without, std::clamp(stage, first_without, last), last}) {
    peak = std::max(peak, (last - backward) * bytes.saved_bytes +
                              std::min(backward, stage) * bytes.weight_operand_bytes + running);
  }
  return peak;
}

// Turns of the interleaved schedule: a forward and a backward pass each, as far as they exist.
// While both stay in their chunks what is held changes evenly, so the first and the last turn of
// such a run decide.
int64_t InterleavedPeak(int64_t num_stages, int64_t group_size, int64_t num_microbatches,
                        int64_t stage, const std::vector<StageActivationBytes>& by_chunk) {
  const auto num_chunks = static_cast<int64_t>(by_chunk.size());
  const int64_t num_passes = num_microbatches * num_chunks;
  const int64_t last_group_size = num_microbatches % group_size;
  const int64_t num_alike = num_passes - last_group_size * num_chunks;  // in whole groups
  const int64_t num_warmup = 2 * (num_stages - 1 - stage) + (num_chunks - 1) * group_size;
  const int64_t num_turns = num_warmup + num_passes;
  static constexpr StageActivationBytes kNone;
  int64_t saved_bytes = 0;
  int64_t peak_bytes = 0;
  // Next turn at which the forward pass, or the backward pass, goes on to another chunk.
  int64_t forward_until = 0;
  int64_t backward_until = num_warmup;
  int64_t forward_chunk = -1;
  int64_t backward_chunk = num_chunks;
  const StageActivationBytes* forward = &kNone;
  const StageActivationBytes* backward = &kNone;
  for (int64_t turn = 0; turn < num_turns;) {
    if (turn == forward_until) {
      const bool is_done = turn >= num_passes;
      forward_chunk = forward_chunk + 1 == num_chunks ? 0 : forward_chunk + 1;
      forward = is_done ? &kNone : &by_chunk[forward_chunk];
      forward_until =
          is_done ? num_turns : turn + (turn < num_alike ? group_size : last_group_size);
    }
    if (turn == backward_until) {
      backward_chunk = backward_chunk == 0 ? num_chunks - 1 : backward_chunk - 1;
      backward = &by_chunk[backward_chunk];
      backward_until = turn + (turn - num_warmup < num_alike ? group_size : last_group_size);
    }
    const int64_t until = std::min(forward_until, backward_until);
    const int64_t change_bytes = forward->saved_bytes - backward->saved_bytes;
    const int64_t running_bytes =
        std::max(forward->working_bytes, change_bytes + backward->working_bytes);
    const int64_t growth_bytes = (until - turn - 1) * change_bytes;
    peak_bytes =
        std::max(peak_bytes, saved_bytes + std::max<int64_t>(0, growth_bytes) + running_bytes);
    saved_bytes += (until - turn) * change_bytes;
    turn = until;
  }
  return peak_bytes;
}

}  // namespace

int64_t MicrobatchesUpToPeak(const ParallelSpec& parallel, int64_t num_microbatches) {
  constexpr int64_t kGroups = 4;
  const int64_t group_size = MicrobatchGroupSize(parallel);
  const int64_t shorter = kGroups * group_size + num_microbatches % group_size;
  return std::min(num_microbatches, shorter);
}

int64_t PeakActivationBytes(const ParallelSpec& parallel, int64_t num_microbatches, int stage,
                            const std::vector<StageActivationBytes>& by_chunk) {
  const int64_t p = parallel.pipeline_parallel_size;
  const int64_t m = num_microbatches;
  switch (parallel.schedule) {
    case ScheduleKind::kGPipe:
      return OneForwardOneBackwardPeak(m, by_chunk.front());
    case ScheduleKind::kOneForwardOneBackward:
      return OneForwardOneBackwardPeak(std::min(m, p - stage), by_chunk.front());
    case ScheduleKind::kZeroBubbleH1:
      return ZeroBubbleH1Peak(std::min(m, p - 1 - stage), m, stage, by_chunk.front());
    case ScheduleKind::kInterleaved: {
      return InterleavedPeak(p, MicrobatchGroupSize(parallel), MicrobatchesUpToPeak(parallel, m),
                             stage, by_chunk);
    }
  }
  base::FailCheck(__FILE__, __LINE__, "known schedule", static_cast<int>(parallel.schedule));
}

}  // namespace tessera::spec
