// The recurrences behind the generators of cost_model/spec/pipeline_schedule.cc. One round advances
// every stage by one turn of its schedule. While the pipeline is full, each round (interleaved:
// each group of rounds) is the same map, built of max and + alone. Such a map commutes with a shift
// of all times, so once the stages' times equal earlier ones but for a shift, all later rounds
// repeat that shift and need not be played.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/pipeline_simulator.h"

namespace tessera::cost_model {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// The last rows of stage times, to find one that repeats.
class RowHistory {
 public:
  // The longest loop of a pipeline that can set its pace takes in as many rows as there are stages.
  explicit RowHistory(int num_stages)
      : num_stages_(num_stages), rows_(static_cast<size_t>(num_stages + 1) * num_stages) {}

  void Add(const std::vector<double>& row) {
    std::copy(row.begin(), row.end(), Row(num_rows_));
    ++num_rows_;
  }

  struct Repeat {
    int lag = 0;  // in rows; 0: none found
    double shift_s = 0;
  };
  // How the newest row repeats an earlier one.
  Repeat Find() const {
    const double* newest = Row(num_rows_ - 1);
    for (int lag = 1; lag <= num_stages_ && lag < num_rows_; ++lag) {
      const double* earlier = Row(num_rows_ - 1 - lag);
      const double shift_s = newest[0] - earlier[0];
      if (IsShifted(earlier, newest, shift_s)) return {lag, shift_s};
    }
    return {};
  }

 private:
  double* Row(int row) { return rows_.data() + row % (num_stages_ + 1) * num_stages_; }
  const double* Row(int row) const { return rows_.data() + row % (num_stages_ + 1) * num_stages_; }

  bool IsShifted(const double* earlier, const double* later, double shift_s) const {
    // Far above the rounding of a few hundred additions, far below any cost that matters.
    constexpr double kTolerance = 1e-13;
    for (int stage = 1; stage < num_stages_; ++stage) {
      const double difference_s = later[stage] - earlier[stage] - shift_s;
      if (std::abs(difference_s) > kTolerance * later[stage]) return false;
    }
    return true;
  }

  int num_stages_;
  int num_rows_ = 0;
  std::vector<double> rows_;
};

void Shift(std::vector<double>& times_s, double shift_s) {
  for (double& time_s : times_s) time_s += shift_s;
}

PipelineTime FromStageEnds(std::vector<double> stage_end_s) {
  PipelineTime time;
  time.makespan_s = *std::max_element(stage_end_s.begin(), stage_end_s.end());
  time.stage_end_s = std::move(stage_end_s);
  return time;
}

// Costs of a pipeline without chunks: how long a pass keeps its stage, its send included, and how
// much later the neighbour has the message.
struct StageCosts {
  std::vector<double> forward_s;
  std::vector<double> backward_s;          // its input part where the schedule splits it
  std::vector<double> backward_weight_s;   // 0 where it does not
  std::vector<double> forward_latency_s;   // to the next stage
  std::vector<double> backward_latency_s;  // from the next stage

  StageCosts(int num_stages, const PipelineCosts& costs)
      : forward_s(costs.forward_s),
        backward_s(costs.backward_s),
        backward_weight_s(costs.backward_weight_s),
        forward_latency_s(costs.forward_transfer_s),
        backward_latency_s(costs.backward_transfer_s) {
    for (int stage = 0; stage + 1 < num_stages; ++stage) {
      forward_s[stage] += costs.send_overhead_s;
      backward_s[stage + 1] += costs.send_overhead_s;
      if (costs.transfers_overlap) continue;
      forward_s[stage] += std::exchange(forward_latency_s[stage], 0);
      backward_s[stage + 1] += std::exchange(backward_latency_s[stage], 0);
    }
    backward_weight_s.resize(num_stages, 0.0);
    forward_latency_s.push_back(0);
    backward_latency_s.push_back(0);
  }
};

// All micro-batches are alike, so each phase is a line on which the first one takes the sum of all
// stages and every other one the slowest stage met so far.
PipelineTime GPipeTime(int num_stages, int num_microbatches, const StageCosts& costs) {
  const double num_others = num_microbatches - 1;
  double sum_s = 0;
  double slowest_s = 0;
  for (int stage = 0; stage < num_stages; ++stage) {
    sum_s += costs.forward_s[stage] + costs.forward_latency_s[stage];
    slowest_s = std::max(slowest_s, costs.forward_s[stage]);
  }
  sum_s += num_others * slowest_s;
  slowest_s = 0;
  std::vector<double> stage_end_s(num_stages);
  for (int stage = num_stages - 1; stage >= 0; --stage) {
    sum_s += costs.backward_latency_s[stage] + costs.backward_s[stage];
    slowest_s = std::max(slowest_s, costs.backward_s[stage]);
    stage_end_s[stage] = sum_s + num_others * slowest_s;
  }
  return FromStageEnds(std::move(stage_end_s));
}

// In round i stage s runs the forward pass of micro-batch i, then the backward pass of micro-batch
// i - (num_stages - 1 - s), then (ZB-H1) the weight pass put off by s micro-batches, as far as they
// exist. `time_s` holds the end of each stage's last round, `sent_s` the end of the backward pass
// in it.
class OneForwardOneBackwardRounds {
 public:
  OneForwardOneBackwardRounds(int num_stages, int num_microbatches, const StageCosts& costs)
      : num_stages_(num_stages),
        num_microbatches_(num_microbatches),
        costs_(costs),
        time_s_(num_stages, 0.0),
        sent_s_(num_stages, 0.0),
        history_(num_stages) {}

  PipelineTime Run() {
    const int num_rounds = num_microbatches_ + num_stages_ - 1;
    bool may_repeat = true;
    for (int round = 0; round < num_rounds; ++round) {
      PlayRound(round);
      const bool is_steady = round >= num_stages_ - 1 && round < num_microbatches_;
      if (!is_steady || !may_repeat) continue;
      history_.Add(time_s_);
      if (round % kRoundsPerSearch != 0) continue;
      const RowHistory::Repeat repeat = history_.Find();
      if (repeat.lag == 0) continue;
      const int num_repeats = (num_microbatches_ - 1 - round) / repeat.lag;
      Shift(time_s_, num_repeats * repeat.shift_s);
      Shift(sent_s_, num_repeats * repeat.shift_s);
      round += num_repeats * repeat.lag;
      may_repeat = false;
    }
    // The weight passes still put off.
    for (int stage = 0; stage < num_stages_; ++stage) {
      time_s_[stage] += std::min(stage, num_microbatches_) * costs_.backward_weight_s[stage];
    }
    return FromStageEnds(std::move(time_s_));
  }

 private:
  static constexpr int kRoundsPerSearch = 4;

  void PlayRound(int round) {
    const bool has_forward = round < num_microbatches_;
    double arrival_s = kNever;
    for (int stage = 0; stage < num_stages_; ++stage) {
      double time_s = time_s_[stage];
      if (has_forward) {
        time_s = std::max(time_s, arrival_s) + costs_.forward_s[stage];
        arrival_s = time_s + costs_.forward_latency_s[stage];
      }
      const int backward = round - (num_stages_ - 1 - stage);
      if (backward >= 0 && backward < num_microbatches_) {
        // The next stage sent this gradient in the round before: its time is not yet overwritten.
        if (stage + 1 < num_stages_) {
          time_s = std::max(time_s, sent_s_[stage + 1] + costs_.backward_latency_s[stage]);
        }
        time_s += costs_.backward_s[stage];
        sent_s_[stage] = time_s;
        if (backward >= stage) time_s += costs_.backward_weight_s[stage];
      }
      time_s_[stage] = time_s;
    }
  }

  int num_stages_;
  int num_microbatches_;
  const StageCosts& costs_;
  std::vector<double> time_s_;
  std::vector<double> sent_s_;
  RowHistory history_;
};

// In round i stage s plays turn i - s of its schedule: forward pass i - s, then backward pass
// i - first_steady + s, as far as they exist. All it needs was sent in the round before.
class InterleavedRounds {
 public:
  InterleavedRounds(int num_stages, int num_chunks, int num_microbatches,
                    const PipelineCosts& costs)
      : num_stages_(num_stages),
        last_virtual_stage_(num_stages * num_chunks - 1),
        num_passes_(num_microbatches * num_chunks),
        group_(num_stages * num_chunks),
        first_steady_(2 * (num_stages - 1) + (num_chunks - 1) * num_stages),
        costs_(costs),
        chunk_begin_(group_),
        pass_end_s_(num_stages, 0.0),
        time_s_(num_stages, 0.0),
        forward_arrival_s_(num_stages, kNever),
        backward_arrival_s_(num_stages, kNever),
        next_forward_arrival_s_(num_stages, kNever),
        next_backward_arrival_s_(num_stages, kNever),
        history_(num_stages) {
    for (int phase = 0; phase < group_; ++phase) chunk_begin_[phase] = phase - phase % num_stages_;
  }

  PipelineTime Run() {
    bool may_repeat = true;
    for (int round = 0; round < first_steady_ + num_passes_; ++round) {
      PlayRound(round);
      const bool is_steady = round >= first_steady_ && round < num_passes_;
      if (!is_steady || !may_repeat || (round - first_steady_) % group_ != 0) continue;
      history_.Add(pass_end_s_);
      const RowHistory::Repeat repeat = history_.Find();
      if (repeat.lag == 0) continue;
      const int period = repeat.lag * group_;
      const int num_repeats = (num_passes_ - 1 - round) / period;
      Shift(time_s_, num_repeats * repeat.shift_s);
      Shift(forward_arrival_s_, num_repeats * repeat.shift_s);
      Shift(backward_arrival_s_, num_repeats * repeat.shift_s);
      round += num_repeats * period;
      may_repeat = false;
    }
    return FromStageEnds(std::move(time_s_));
  }

 private:
  // First virtual stage of the chunk that pass `phase` of a group goes through, phases counted from
  // -group_ on.
  int ChunkBegin(int phase) const { return chunk_begin_[phase < 0 ? phase + group_ : phase]; }

  void PlayRound(int round) {
    std::fill(next_forward_arrival_s_.begin(), next_forward_arrival_s_.end(), kNever);
    std::fill(next_backward_arrival_s_.begin(), next_backward_arrival_s_.end(), kNever);
    const int last_stage = num_stages_ - 1;
    const int forward_phase = round % group_;
    const int backward_phase = (round + group_ - first_steady_ % group_) % group_;
    for (int stage = 0; stage < num_stages_; ++stage) {
      const int forward = round - stage;
      const int backward = round - first_steady_ + stage;
      const bool has_forward = forward >= 0 && forward < num_passes_;
      const bool has_backward = backward >= 0 && backward < num_passes_;
      if (!has_forward && !has_backward) continue;
      time_s_[stage] =
          std::max({time_s_[stage], forward_arrival_s_[stage], backward_arrival_s_[stage]});
      const int forward_stage = ChunkBegin(forward_phase - stage) + stage;
      const int backward_stage =
          last_virtual_stage_ - last_stage - ChunkBegin(backward_phase + stage - group_) + stage;
      if (has_forward) time_s_[stage] += costs_.forward_s[forward_stage];
      if (has_backward) time_s_[stage] += costs_.backward_s[backward_stage];
      pass_end_s_[stage] = time_s_[stage];
      double sent_s = 0;
      if (has_forward && forward_stage < last_virtual_stage_) {
        sent_s = Send(stage, costs_.forward_transfer_s[forward_stage],
                      next_forward_arrival_s_[stage + 1 < num_stages_ ? stage + 1 : 0]);
      }
      if (has_backward && backward_stage > 0) {
        const double arrival_s =
            Send(stage, costs_.backward_transfer_s[backward_stage - 1],
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

  int num_stages_;
  int last_virtual_stage_;
  int num_passes_;
  int group_;         // passes, and rounds, of num_stages micro-batches
  int first_steady_;  // round from which on every stage has both passes
  const PipelineCosts& costs_;
  std::vector<int> chunk_begin_;  // [group_]
  std::vector<double> pass_end_s_;
  std::vector<double> time_s_;
  std::vector<double> forward_arrival_s_;  // at each stage, of what its turn needs; or kNever
  std::vector<double> backward_arrival_s_;
  std::vector<double> next_forward_arrival_s_;
  std::vector<double> next_backward_arrival_s_;
  RowHistory history_;
};

}  // namespace

PipelineTime FastPipelineTime(spec::ScheduleKind kind, int num_stages, int num_chunks,
                              int num_microbatches, const PipelineCosts& costs) {
  TESSERA_CHECK(num_stages >= 1 && num_chunks >= 1 && num_microbatches >= 1, num_stages,
                " stages, ", num_chunks, " chunks, ", num_microbatches, " micro-batches");
  CheckCosts(costs, num_stages * num_chunks);
  TESSERA_CHECK(costs.backward_weight_s.empty() != (kind == spec::ScheduleKind::kZeroBubbleH1),
                "costs of weight passes belong to zb-h1 alone");
  switch (kind) {
    case spec::ScheduleKind::kGPipe:
      TESSERA_CHECK(num_chunks == 1, "gpipe with ", num_chunks, " chunks");
      return GPipeTime(num_stages, num_microbatches, StageCosts(num_stages, costs));
    case spec::ScheduleKind::kOneForwardOneBackward:
    case spec::ScheduleKind::kZeroBubbleH1: {
      TESSERA_CHECK(num_chunks == 1, spec::ToString(kind), " with ", num_chunks, " chunks");
      const StageCosts stage_costs(num_stages, costs);
      return OneForwardOneBackwardRounds(num_stages, num_microbatches, stage_costs).Run();
    }
    case spec::ScheduleKind::kInterleaved:
      TESSERA_CHECK(num_stages >= 2 && num_chunks >= 2 && num_microbatches % num_stages == 0,
                    num_stages, " stages, ", num_chunks, " chunks, ", num_microbatches,
                    " micro-batches interleaved");
      return InterleavedRounds(num_stages, num_chunks, num_microbatches, costs).Run();
  }
  base::FailCheck(__FILE__, __LINE__, "known ScheduleKind", static_cast<int>(kind));
}

}  // namespace tessera::cost_model
