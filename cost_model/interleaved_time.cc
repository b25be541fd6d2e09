#include "cost_model/interleaved_time.h"

#include <algorithm>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/repeating_times.h"

namespace tessera::cost_model {
namespace {

// In round i stage s plays turn i - s of its schedule: forward pass i - s, then backward pass
// i - first_steady + s, as far as they exist. Passes are numbered as the schedule runs them: a
// group of micro-batches goes through one chunk after the other.
class InterleavedRounds {
 public:
  InterleavedRounds(const PipelineShape& shape, int group_size, const PipelineCosts& costs)
      : num_stages_(shape.num_stages),
        last_virtual_stage_(shape.num_stages * shape.num_chunks - 1),
        group_size_(group_size),
        last_group_size_(shape.num_microbatches % group_size),
        num_passes_(shape.num_microbatches * shape.num_chunks),
        num_alike_((shape.num_microbatches - last_group_size_) * shape.num_chunks),
        period_(group_size * shape.num_chunks),
        first_steady_(2 * (shape.num_stages - 1) + (shape.num_chunks - 1) * group_size),
        costs_(costs),
        chunk_begin_(period_),
        time_s_(shape.num_stages, 0.0),
        history_(shape.num_stages) {
    for (int phase = 0; phase < period_; ++phase) {
      chunk_begin_[phase] = phase / group_size * num_stages_;
    }
  }
  virtual ~InterleavedRounds() = default;

  PipelineTime Run() {
    bool may_repeat = true;
    for (int round = 0; round < first_steady_ + num_passes_; ++round) {
      PlayRound(round);
      const bool is_steady = round >= first_steady_ && round < num_alike_;
      if (!is_steady || !may_repeat || (round - first_steady_) % period_ != 0) continue;
      history_.Add(Row());
      const RowHistory::Repeat repeat = history_.Find();
      if (repeat.lag == 0) continue;
      const int num_rounds = repeat.lag * period_;
      const int num_repeats = (num_alike_ - 1 - round) / num_rounds;
      ShiftAll(num_repeats * repeat.shift_s);
      round += num_repeats * num_rounds;
      may_repeat = false;
    }
    return FromStageEnds(std::move(time_s_));
  }

 protected:
  // What a stage does in a round.
  struct Turn {
    bool has_forward = false;
    bool has_backward = false;
    int forward = 0;  // numbers of its passes
    int backward = 0;
    int forward_stage = 0;  // their virtual stages
    int backward_stage = 0;
  };
  Turn TurnOf(int stage, int round) const {
    Turn turn{.forward = round - stage, .backward = round - first_steady_ + stage};
    turn.has_forward = turn.forward >= 0 && turn.forward < num_passes_;
    turn.has_backward = turn.backward >= 0 && turn.backward < num_passes_;
    if (turn.has_forward) turn.forward_stage = ChunkBegin(turn.forward) + stage;
    if (turn.has_backward) {
      turn.backward_stage =
          last_virtual_stage_ - (num_stages_ - 1) - ChunkBegin(turn.backward) + stage;
    }
    return turn;
  }
  // Micro-batches of the group that a pass belongs to.
  int GroupSizeAt(int pass) const { return pass < num_alike_ ? group_size_ : last_group_size_; }

  virtual void PlayRound(int round) = 0;
  // All times that later rounds depend on.
  virtual const std::vector<double>& Row() = 0;
  virtual void ShiftAll(double shift_s) = 0;

  int num_stages_;
  int last_virtual_stage_;
  int group_size_;
  int last_group_size_;  // 0: all groups are alike
  int num_passes_;
  int num_alike_;     // passes of the groups that are alike
  int period_;        // passes, and rounds, of a group
  int first_steady_;  // round from which on every stage has both passes
  const PipelineCosts& costs_;
  std::vector<int> chunk_begin_;  // [period_]
  std::vector<double> time_s_;    // of each stage

 private:
  // First virtual stage of the chunk that a pass goes through, forward.
  int ChunkBegin(int pass) const {
    return pass < num_alike_ ? chunk_begin_[pass % period_]
                             : (pass - num_alike_) / last_group_size_ * num_stages_;
  }

  RowHistory history_;
};

// All that a turn needs was sent in the round before, and is waited for before the turn begins.
class WaitingRounds : public InterleavedRounds {
 public:
  WaitingRounds(const PipelineShape& shape, int group_size, const PipelineCosts& costs)
      : InterleavedRounds(shape, group_size, costs),
        pass_end_s_(shape.num_stages, 0.0),
        forward_arrival_s_(shape.num_stages, kNever),
        backward_arrival_s_(shape.num_stages, kNever),
        next_forward_arrival_s_(shape.num_stages, kNever),
        next_backward_arrival_s_(shape.num_stages, kNever) {}

 private:
  void PlayRound(int round) override {
    std::fill(next_forward_arrival_s_.begin(), next_forward_arrival_s_.end(), kNever);
    std::fill(next_backward_arrival_s_.begin(), next_backward_arrival_s_.end(), kNever);
    for (int stage = 0; stage < num_stages_; ++stage) {
      const Turn turn = TurnOf(stage, round);
      if (!turn.has_forward && !turn.has_backward) continue;
      time_s_[stage] =
          std::max({time_s_[stage], forward_arrival_s_[stage], backward_arrival_s_[stage]});
      if (turn.has_forward) time_s_[stage] += costs_.forward_s[turn.forward_stage];
      if (turn.has_backward) time_s_[stage] += costs_.backward_s[turn.backward_stage];
      pass_end_s_[stage] = time_s_[stage];
      double sent_s = 0;
      if (turn.has_forward && turn.forward_stage < last_virtual_stage_) {
        sent_s = Send(stage, costs_.forward_transfer_s[turn.forward_stage],
                      next_forward_arrival_s_[stage + 1 < num_stages_ ? stage + 1 : 0]);
      }
      if (turn.has_backward && turn.backward_stage > 0) {
        const double arrival_s =
            Send(stage, costs_.backward_transfer_s[turn.backward_stage - 1],
                 next_backward_arrival_s_[stage > 0 ? stage - 1 : num_stages_ - 1]);
        sent_s = std::max(sent_s, arrival_s);
      }
      if (!costs_.transfers_overlap) time_s_[stage] = std::max(time_s_[stage], sent_s);
    }
    forward_arrival_s_.swap(next_forward_arrival_s_);
    backward_arrival_s_.swap(next_backward_arrival_s_);
  }

  // Returns when the message arrives, and notes it at its receiver.
  double Send(int stage, double transfer_s, double& arrival_s) {
    time_s_[stage] += costs_.send_overhead_s;
    return arrival_s = time_s_[stage] + transfer_s;
  }

  const std::vector<double>& Row() override { return pass_end_s_; }
  void ShiftAll(double shift_s) override {
    Shift(time_s_, shift_s);
    Shift(forward_arrival_s_, shift_s);
    Shift(backward_arrival_s_, shift_s);
  }

  std::vector<double> pass_end_s_;
  std::vector<double> forward_arrival_s_;  // at each stage, in the round before; or kNever
  std::vector<double> backward_arrival_s_;
  std::vector<double> next_forward_arrival_s_;
  std::vector<double> next_backward_arrival_s_;
};

// A pass waits for its own input and sends as soon as it ends. Messages wait at their receiver, in
// one place for each pass of a group: none is used again before its message has been read.
class OverlappedRounds : public InterleavedRounds {
 public:
  OverlappedRounds(const PipelineShape& shape, int group_size, const PipelineCosts& costs)
      : InterleavedRounds(shape, group_size, costs),
        forward_arrival_s_(static_cast<size_t>(shape.num_stages) * group_size, kNever),
        backward_arrival_s_(forward_arrival_s_) {}

 private:
  void PlayRound(int round) override {
    for (int stage = 0; stage < num_stages_; ++stage) {
      const Turn turn = TurnOf(stage, round);
      double& time_s = time_s_[stage];
      if (turn.has_forward) {
        if (turn.forward_stage > 0) {
          time_s = std::max(time_s, At(forward_arrival_s_, stage, turn.forward));
        }
        time_s += costs_.forward_s[turn.forward_stage];
        if (turn.forward_stage < last_virtual_stage_) {
          const bool wraps = stage + 1 == num_stages_;
          time_s += costs_.send_overhead_s;
          At(forward_arrival_s_, wraps ? 0 : stage + 1,
             turn.forward + (wraps ? GroupSizeAt(turn.forward) : 0)) =
              time_s + costs_.forward_transfer_s[turn.forward_stage];
        }
      }
      if (turn.has_backward) {
        if (turn.backward_stage < last_virtual_stage_) {
          time_s = std::max(time_s, At(backward_arrival_s_, stage, turn.backward));
        }
        time_s += costs_.backward_s[turn.backward_stage];
        if (turn.backward_stage > 0) {
          const bool wraps = stage == 0;
          time_s += costs_.send_overhead_s;
          At(backward_arrival_s_, wraps ? num_stages_ - 1 : stage - 1,
             turn.backward + (wraps ? GroupSizeAt(turn.backward) : 0)) =
              time_s + costs_.backward_transfer_s[turn.backward_stage - 1];
        }
      }
    }
  }

  double& At(std::vector<double>& arrival_s, int stage, int pass) const {
    return arrival_s[static_cast<size_t>(stage) * group_size_ + pass % group_size_];
  }

  const std::vector<double>& Row() override {
    row_ = time_s_;
    row_.insert(row_.end(), forward_arrival_s_.begin(), forward_arrival_s_.end());
    row_.insert(row_.end(), backward_arrival_s_.begin(), backward_arrival_s_.end());
    return row_;
  }
  void ShiftAll(double shift_s) override {
    Shift(time_s_, shift_s);
    Shift(forward_arrival_s_, shift_s);
    Shift(backward_arrival_s_, shift_s);
  }

  std::vector<double> forward_arrival_s_;  // [stage, pass of a group]
  std::vector<double> backward_arrival_s_;
  std::vector<double> row_;
};

}  // namespace

PipelineTime InterleavedTime(const PipelineShape& shape, const PipelineCosts& costs) {
  const int group_size = shape.group_size > 0 ? shape.group_size : shape.num_stages;
  TESSERA_CHECK(shape.num_stages >= 2 && shape.num_chunks >= 2 &&
                    spec::FormGroups(shape.num_microbatches, group_size, shape.num_stages),
                shape.num_stages, " stages, ", shape.num_chunks, " chunks, ",
                shape.num_microbatches, " micro-batches in groups of ", group_size);
  if (shape.overlaps_transfers) return OverlappedRounds(shape, group_size, costs).Run();
  return WaitingRounds(shape, group_size, costs).Run();
}

}  // namespace tessera::cost_model
