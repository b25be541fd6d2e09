#include "cost_model/spec/transfer_buffers.h"

#include <algorithm>
#include <utility>

#include "cost_model/spec/activation_peak.h"

namespace tessera::spec {
namespace {

class Player {
 public:
  Player(const PipelineSchedule& schedule, int64_t whole)
      : schedule_(schedule),
        whole_(whole),
        last_virtual_stage_(schedule.num_stages * schedule.num_chunks - 1) {
    most_.beside_forward.resize(schedule.num_chunks, 0);
    most_.beside_backward.resize(schedule.num_chunks, 0);
  }

  TransferBuffers Play(int stage) && {
    if (schedule_.num_stages == 1) return most_;
    const std::vector<Action>& actions = schedule_.actions_by_stage[stage];
    for (size_t i = 0; i < actions.size();) {
      size_t end = i + 1;
      if (IsTransfer(actions[i].kind)) {
        while (end < actions.size() && actions[end].exchange == actions[i].exchange) ++end;
        Exchange(actions, i, end);
      } else {
        Pass(actions[i]);
      }
      i = end;
    }
    return most_;
  }

 private:
  // Posted, and not yet waited for.
  struct UnderWay {
    int64_t sent = 0;
    std::vector<Action> receives;
  };

  void Exchange(const std::vector<Action>& actions, size_t begin, size_t end) {
    for (size_t i = 0; i + 1 < under_way_.size(); ++i) Release(under_way_[i]);
    UnderWay exchange;
    for (size_t i = begin; i < end; ++i) {
      if (IsSend(actions[i].kind)) {
        exchange.sent += whole_;
      } else {
        ++held_;
        exchange.receives.push_back(actions[i]);
      }
    }
    most_.in_exchange = std::max(most_.in_exchange, held_);
    if (!schedule_.overlaps_transfers) Release(exchange);
    under_way_.push_back(std::move(exchange));
    std::erase_if(under_way_,
                  [](const UnderWay& each) { return each.sent == 0 && each.receives.empty(); });
  }

  void Release(UnderWay& exchange) { held_ -= std::exchange(exchange.sent, 0); }

  void Pass(const Action& pass) {
    if (pass.kind == ActionKind::kBackwardWeight) return;
    const bool is_forward = pass.kind == ActionKind::kForward;
    if (pass.virtual_stage != (is_forward ? 0 : last_virtual_stage_)) {
      TakeInput({is_forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward,
                 pass.virtual_stage, pass.microbatch});
    }
    const int chunk = pass.virtual_stage / schedule_.num_stages;
    int64_t& most = (is_forward ? most_.beside_forward : most_.beside_backward)[chunk];
    most = std::max(most, held_);
    if (pass.virtual_stage != (is_forward ? last_virtual_stage_ : 0)) held_ += whole_;
  }

  void TakeInput(const Action& wanted) {
    for (UnderWay& exchange : under_way_) {
      const auto num_others = std::erase_if(exchange.receives, [&](const Action& receive) {
        return receive.kind == wanted.kind && receive.virtual_stage == wanted.virtual_stage &&
               receive.microbatch == wanted.microbatch;
      });
      if (num_others == 0) continue;
      Release(exchange);
      --held_;
      return;
    }
  }

  const PipelineSchedule& schedule_;
  const int64_t whole_;
  const int last_virtual_stage_;
  TransferBuffers most_;
  int64_t held_ = 0;
  std::vector<UnderWay> under_way_;
};

}  // namespace

TransferBuffers TransferBuffersOf(const PipelineSchedule& schedule, int stage, int64_t whole) {
  return Player(schedule, whole).Play(stage);
}

std::vector<TransferBuffers> TransferBuffersOf(const ParallelSpec& parallel,
                                               int64_t num_microbatches) {
  std::vector<TransferBuffers> by_stage;
  // The passes of a stage without layers take less than the two messages of an exchange.
  const std::vector<int>& layers = parallel.layers_per_virtual_stage;
  const bool has_layers_everywhere = std::find(layers.begin(), layers.end(), 0) == layers.end();
  const bool waits_by_pass = parallel.schedule != ScheduleKind::kInterleaved &&
                             !parallel.overlap_pp_comm && has_layers_everywhere;
  if (waits_by_pass) {
    const std::vector<int64_t> none(parallel.virtual_pipeline_size, 0);
    by_stage.assign(parallel.pipeline_parallel_size, {none, none});
    return by_stage;
  }
  const int64_t num_played = MicrobatchesUpToPeak(parallel, num_microbatches);
  const PipelineSchedule schedule = MakeSchedule(parallel, static_cast<int>(num_played));
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    by_stage.push_back(TransferBuffersOf(schedule, stage, TransferUnits(parallel)));
  }
  return by_stage;
}

int64_t TransferUnits(const ParallelSpec& parallel) {
  const bool is_part = parallel.scatter_gather_transfers && !parallel.sequence_parallel;
  return is_part ? parallel.tensor_parallel_size : 1;
}

}  // namespace tessera::spec
