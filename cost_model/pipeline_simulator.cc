#include "cost_model/pipeline_simulator.h"

#include <algorithm>

#include "cost_model/base/check.h"

namespace tessera::cost_model {
namespace {

using spec::Action;
using spec::ActionKind;

constexpr double kNotSent = -1;

// Where one stage stands in its list of actions.
struct StageState {
  size_t next = 0;          // action to run, or to wait for
  size_t exchange_end = 0;  // one past the exchange whose sends have started
  double now_s = 0;
  double exchange_s = 0;           // when all of the exchange looked at so far is done
  double exchange_transfer_s = 0;  // of the message that `exchange_s` waits for
  bool is_waiting = false;
};

class Simulator {
 public:
  Simulator(const spec::PipelineSchedule& schedule, const PipelineCosts& costs,
            spec::PipelineTimeline* timeline)
      : schedule_(schedule),
        costs_(costs),
        timeline_(timeline),
        num_virtual_stages_(schedule.num_stages * schedule.num_chunks),
        states_(schedule.num_stages),
        arrival_s_(2 * static_cast<size_t>(num_virtual_stages_) * schedule.num_microbatches,
                   kNotSent),
        posted_at_(arrival_s_.size()) {
    result_.stages.resize(schedule.num_stages);
    if (timeline_ == nullptr) return;
    timeline_->by_stage.resize(schedule.num_stages);
    for (int stage = 0; stage < schedule.num_stages; ++stage) {
      timeline_->by_stage[stage].resize(schedule.actions_by_stage[stage].size());
    }
  }

  PipelineResult Run() {
    ready_.reserve(schedule_.num_stages);
    for (int stage = schedule_.num_stages - 1; stage >= 0; --stage) ready_.push_back(stage);
    while (!ready_.empty()) {
      const int stage = ready_.back();
      ready_.pop_back();
      RunUntilBlocked(stage);
    }
    CheckAllDone();
    for (const StageState& state : states_) {
      result_.makespan_s = std::max(result_.makespan_s, state.now_s);
    }
    for (int stage = 0; stage < schedule_.num_stages; ++stage) {
      result_.stages[stage].bubble_s += result_.makespan_s - states_[stage].now_s;
    }
    if (timeline_ != nullptr) timeline_->makespan_s = result_.makespan_s;
    return std::move(result_);
  }

 private:
  void RunUntilBlocked(int stage) {
    const std::vector<Action>& actions = schedule_.actions_by_stage[stage];
    StageState& state = states_[stage];
    while (state.next < actions.size()) {
      if (spec::IsTransfer(actions[state.next].kind)) {
        if (state.next >= state.exchange_end) StartExchange(stage);
        if (schedule_.overlaps_transfers) {
          state.next = state.exchange_end;
          continue;
        }
        if (!FinishExchange(stage)) {
          state.is_waiting = true;
          return;
        }
      } else {
        if (schedule_.overlaps_transfers && !AwaitInput(stage, actions[state.next])) {
          state.is_waiting = true;
          return;
        }
        Compute(stage, actions[state.next]);
      }
    }
  }

  void Compute(int stage, const Action& action) {
    CheckInRange(action);
    StageState& state = states_[stage];
    PipelineStageTime& time = result_.stages[stage];
    const double start_s = state.now_s;
    const double pass_s = PassSeconds(action);
    state.now_s += pass_s;
    (action.kind == ActionKind::kForward ? time.forward_s : time.backward_s) += pass_s;
    Record(stage, state.next++, start_s, state.now_s);
  }

  double PassSeconds(const Action& pass) const {
    switch (pass.kind) {
      case ActionKind::kForward:
        return costs_.forward_s[pass.virtual_stage];
      case ActionKind::kBackwardWeight:
        return costs_.backward_weight_s[pass.virtual_stage];
      default:
        return costs_.backward_s[pass.virtual_stage];
    }
  }

  // Starts the sends of the exchange at hand; its receives are left to FinishExchange.
  void StartExchange(int stage) {
    const std::vector<Action>& actions = schedule_.actions_by_stage[stage];
    StageState& state = states_[stage];
    state.exchange_s = 0;
    state.exchange_transfer_s = 0;
    const int exchange = actions[state.next].exchange;
    size_t i = state.next;
    for (; i < actions.size() && actions[i].exchange == exchange; ++i) {
      CheckInRange(actions[i]);
      if (!spec::IsSend(actions[i].kind)) {
        posted_at_[ArrivalIndex(actions[i])] = i;
        Record(stage, i, state.now_s, state.now_s);
        continue;
      }
      const double start_s = state.now_s;
      state.now_s += costs_.send_overhead_s;
      result_.stages[stage].send_s += costs_.send_overhead_s;
      const Action recv = spec::CounterpartOf(actions[i]);
      const double transfer_s = TransferSeconds(recv);
      arrival_s_[ArrivalIndex(recv)] = state.now_s + transfer_s;
      if (!costs_.transfers_overlap) WaitFor(state, state.now_s + transfer_s, transfer_s);
      Record(stage, i, start_s, costs_.transfers_overlap ? state.now_s : state.now_s + transfer_s);
      Wake(recv.virtual_stage % schedule_.num_stages);
    }
    state.exchange_end = i;
  }

  // False when a message has not even been sent.
  bool FinishExchange(int stage) {
    const std::vector<Action>& actions = schedule_.actions_by_stage[stage];
    StageState& state = states_[stage];
    for (; state.next < state.exchange_end; ++state.next) {
      const Action& action = actions[state.next];
      if (spec::IsSend(action.kind)) continue;
      const double arrival_s = arrival_s_[ArrivalIndex(action)];
      if (arrival_s == kNotSent) return false;
      WaitFor(state, arrival_s, TransferSeconds(action));
      Record(stage, state.next, state.now_s, std::max(state.now_s, arrival_s));
    }
    if (state.exchange_s > state.now_s) {
      const double wait_s = state.exchange_s - state.now_s;
      const double transfer_s = std::min(wait_s, state.exchange_transfer_s);
      result_.stages[stage].transfer_s += transfer_s;
      result_.stages[stage].bubble_s += wait_s - transfer_s;
      state.now_s = state.exchange_s;
    }
    return true;
  }

  // Of a pass, where the schedule overlaps transfers. False when its input has not even been sent.
  bool AwaitInput(int stage, const Action& pass) {
    CheckInRange(pass);
    if (schedule_.num_stages == 1 || pass.kind == ActionKind::kBackwardWeight) return true;
    const bool is_forward = pass.kind == ActionKind::kForward;
    if (pass.virtual_stage == (is_forward ? 0 : num_virtual_stages_ - 1)) return true;
    const Action recv{is_forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward,
                      pass.virtual_stage, pass.microbatch};
    const double arrival_s = arrival_s_[ArrivalIndex(recv)];
    if (arrival_s == kNotSent) return false;
    StageState& state = states_[stage];
    if (timeline_ != nullptr) {
      spec::TimedAction& timed = timeline_->by_stage[stage][posted_at_[ArrivalIndex(recv)]];
      timed.end_s = std::max(timed.start_s, arrival_s);
    }
    const double wait_s = std::max(0.0, arrival_s - state.now_s);
    const double transfer_s = std::min(wait_s, TransferSeconds(recv));
    result_.stages[stage].transfer_s += transfer_s;
    result_.stages[stage].bubble_s += wait_s - transfer_s;
    state.now_s += wait_s;
    return true;
  }

  static void WaitFor(StageState& state, double arrival_s, double transfer_s) {
    if (arrival_s <= state.exchange_s) return;
    state.exchange_s = arrival_s;
    state.exchange_transfer_s = transfer_s;
  }

  void Wake(int stage) {
    if (!states_[stage].is_waiting) return;
    states_[stage].is_waiting = false;
    ready_.push_back(stage);
  }

  double TransferSeconds(const Action& recv) const {
    return recv.kind == ActionKind::kRecvForward ? costs_.forward_transfer_s[recv.virtual_stage - 1]
                                                 : costs_.backward_transfer_s[recv.virtual_stage];
  }

  size_t ArrivalIndex(const Action& recv) const {
    const size_t row = recv.kind == ActionKind::kRecvForward
                           ? recv.virtual_stage
                           : num_virtual_stages_ + recv.virtual_stage;
    return row * schedule_.num_microbatches + recv.microbatch;
  }

  void CheckInRange(const Action& action) const {
    const int v = action.virtual_stage;
    TESSERA_CHECK(v >= 0 && v < num_virtual_stages_ && action.microbatch >= 0 &&
                      action.microbatch < schedule_.num_microbatches,
                  spec::ToString(action), " is outside the schedule");
    if (!spec::IsTransfer(action.kind)) return;
    const int peer = spec::CounterpartOf(action).virtual_stage;
    TESSERA_CHECK(peer >= 0 && peer < num_virtual_stages_, spec::ToString(action), " has no peer");
  }

  void Record(int stage, size_t i, double start_s, double end_s) {
    if (timeline_ == nullptr) return;
    timeline_->by_stage[stage][i] = {schedule_.actions_by_stage[stage][i], start_s, end_s};
  }

  void CheckAllDone() const {
    std::string stuck;
    for (int stage = 0; stage < schedule_.num_stages; ++stage) {
      const std::vector<Action>& actions = schedule_.actions_by_stage[stage];
      if (states_[stage].next == actions.size()) continue;
      stuck += base::Concat(stuck.empty() ? "" : ", ", "stage ", stage, " at ",
                            spec::ToString(actions[states_[stage].next]));
    }
    TESSERA_CHECK(stuck.empty(), "the schedule deadlocks: ", stuck);
  }

  const spec::PipelineSchedule& schedule_;
  const PipelineCosts& costs_;
  spec::PipelineTimeline* timeline_;
  int num_virtual_stages_;
  std::vector<StageState> states_;
  // When the message of each possible receive arrives: forward, then backward, by virtual stage and
  // micro-batch.
  std::vector<double> arrival_s_;
  std::vector<size_t> posted_at_;  // the receive's place among its stage's actions
  std::vector<int> ready_;
  PipelineResult result_;
};

}  // namespace

void CheckCosts(const PipelineCosts& costs, int num_virtual_stages) {
  const size_t n = num_virtual_stages;
  TESSERA_CHECK(costs.forward_s.size() == n && costs.backward_s.size() == n, "costs of ",
                costs.forward_s.size(), " forward and ", costs.backward_s.size(),
                " backward passes for ", n, " virtual stages");
  TESSERA_CHECK(costs.backward_weight_s.empty() || costs.backward_weight_s.size() == n, "costs of ",
                costs.backward_weight_s.size(), " weight passes for ", n, " virtual stages");
  TESSERA_CHECK(
      costs.forward_transfer_s.size() == n - 1 && costs.backward_transfer_s.size() == n - 1,
      "costs of ", costs.forward_transfer_s.size(), " forward and ",
      costs.backward_transfer_s.size(), " backward transfers for ", n, " virtual stages");
}

PipelineResult SimulatePipeline(const spec::PipelineSchedule& schedule, const PipelineCosts& costs,
                                spec::PipelineTimeline* timeline) {
  TESSERA_CHECK(static_cast<int>(schedule.actions_by_stage.size()) == schedule.num_stages,
                "actions of ", schedule.actions_by_stage.size(), " stages of ",
                schedule.num_stages);
  CheckCosts(costs, schedule.num_stages * schedule.num_chunks);
  TESSERA_CHECK(
      costs.backward_weight_s.empty() != (schedule.kind == spec::ScheduleKind::kZeroBubbleH1),
      "costs of weight passes belong to zb-h1 alone");
  return Simulator(schedule, costs, timeline).Run();
}

}  // namespace tessera::cost_model
