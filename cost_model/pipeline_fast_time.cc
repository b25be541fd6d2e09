// The recurrences behind the generators of cost_model/spec/pipeline_schedule.cc. One round advances
// every stage by one turn of its schedule; see repeating_times.h.
#include <algorithm>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/interleaved_time.h"
#include "cost_model/pipeline_simulator.h"
#include "cost_model/repeating_times.h"

namespace tessera::cost_model {
namespace {

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

}  // namespace

PipelineTime FastPipelineTime(const PipelineShape& shape, const PipelineCosts& costs) {
  const auto& [kind, num_stages, num_chunks, num_microbatches, group_size, overlaps] = shape;
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
      // Each receive stands before the pass that reads it: overlapped or not, that pass waits.
      TESSERA_CHECK(num_chunks == 1, spec::ToString(kind), " with ", num_chunks, " chunks");
      const StageCosts stage_costs(num_stages, costs);
      return OneForwardOneBackwardRounds(num_stages, num_microbatches, stage_costs).Run();
    }
    case spec::ScheduleKind::kInterleaved:
      return InterleavedTime(shape, costs);
  }
  base::FailCheck(__FILE__, __LINE__, "known ScheduleKind", static_cast<int>(kind));
}

}  // namespace tessera::cost_model
