// What makes a list of actions a schedule that every engine can run.
#include <algorithm>
#include <array>

#include "cost_model/base/check.h"
#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {
namespace {

constexpr std::array<ActionKind, 8> kAllKinds = {
    ActionKind::kForward,       ActionKind::kBackward,      ActionKind::kSendForward,
    ActionKind::kRecvForward,   ActionKind::kSendBackward,  ActionKind::kRecvBackward,
    ActionKind::kBackwardInput, ActionKind::kBackwardWeight};
constexpr size_t kMaxMessages = 20;  // a wrong generator is wrong in thousands of places

// Numbers every possible action of a schedule densely, so that checks run on arrays.
struct ActionIndex {
  int num_stages;
  int num_virtual_stages;
  int num_microbatches;
  bool splits_backward;
  bool is_forward_only;

  explicit ActionIndex(const PipelineSchedule& schedule)
      : num_stages(schedule.num_stages),
        num_virtual_stages(schedule.num_stages * schedule.num_chunks),
        num_microbatches(schedule.num_microbatches),
        splits_backward(schedule.kind == ScheduleKind::kZeroBubbleH1),
        is_forward_only(schedule.is_forward_only) {}

  size_t size() const { return kAllKinds.size() * num_virtual_stages * num_microbatches; }
  size_t Of(const Action& action) const {
    const size_t row = static_cast<size_t>(action.kind) * num_virtual_stages + action.virtual_stage;
    return row * num_microbatches + action.microbatch;
  }
  bool InRange(const Action& action) const {
    return static_cast<size_t>(action.kind) < kAllKinds.size() && action.virtual_stage >= 0 &&
           action.virtual_stage < num_virtual_stages && action.microbatch >= 0 &&
           action.microbatch < num_microbatches;
  }
  int StageOf(const Action& action) const { return action.virtual_stage % num_stages; }
  // Whether a schedule of this shape holds the action at all.
  bool IsNeeded(const Action& action) const {
    if (action.kind == ActionKind::kForward) return true;
    const bool goes_forward =
        action.kind == ActionKind::kSendForward || action.kind == ActionKind::kRecvForward;
    if (is_forward_only && !goes_forward) return false;
    if (!IsTransfer(action.kind)) return (action.kind != ActionKind::kBackward) == splits_backward;
    const int peer = CounterpartOf(action).virtual_stage;
    return num_stages > 1 && peer >= 0 && peer < num_virtual_stages;
  }
};

class Validator {
 public:
  explicit Validator(const PipelineSchedule& schedule) : schedule_(schedule), index_(schedule) {}

  std::vector<std::string> Run() {
    position_.assign(index_.size(), -1);
    for (int stage = 0; stage < schedule_.num_stages; ++stage) {
      CheckEachAction(stage);
      CheckExchanges(stage);
    }
    CheckNoneMissing();
    // The checks below lean on every action standing where it belongs.
    if (messages_.empty()) CheckOrderOnEachStage();
    if (messages_.empty()) CheckOrderBetweenStages();
    if (messages_.empty()) CheckRendezvous();
    return std::move(messages_);
  }

 private:
  template <typename... Parts>
  void Report(const Parts&... parts) {
    if (messages_.size() < kMaxMessages) messages_.push_back(base::Concat(parts...));
  }

  void CheckEachAction(int stage) {
    const std::vector<Action>& actions = schedule_.actions_by_stage[stage];
    for (size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (!index_.InRange(action)) {
        Report("stage ", stage, ": action ", i, " names virtual stage ", action.virtual_stage,
               " and micro-batch ", action.microbatch, ", outside the schedule");
      } else if (index_.StageOf(action) != stage) {
        Report("stage ", stage, ": ", ToString(action), " belongs to stage ",
               index_.StageOf(action));
      } else if (!index_.IsNeeded(action)) {
        Report(
            "stage ", stage, ": ", ToString(action),
            IsTransfer(action.kind) ? " has no stage to talk to" : " is no pass of the schedule");
      } else if (position_[index_.Of(action)] >= 0) {
        Report("stage ", stage, ": ", ToString(action), " appears twice");
      } else {
        position_[index_.Of(action)] = static_cast<int>(i);
      }
    }
  }

  void CheckExchanges(int stage) {
    std::vector<int> begun;
    int previous = -1;
    for (const Action& action : schedule_.actions_by_stage[stage]) {
      if (index_.InRange(action) && IsTransfer(action.kind) != (action.exchange >= 0)) {
        Report("stage ", stage, ": ", ToString(action), " has exchange ", action.exchange);
      }
      if (action.exchange >= 0 && action.exchange != previous) begun.push_back(action.exchange);
      previous = action.exchange;
    }
    std::sort(begun.begin(), begun.end());
    const auto repeated = std::adjacent_find(begun.begin(), begun.end());
    if (repeated != begun.end()) {
      Report("stage ", stage, ": exchange ", *repeated, " is not of consecutive actions");
    }
  }

  void CheckNoneMissing() {
    for (const ActionKind kind : kAllKinds) {
      for (int virtual_stage = 0; virtual_stage < index_.num_virtual_stages; ++virtual_stage) {
        if (!index_.IsNeeded({kind, virtual_stage, 0})) continue;
        for (int microbatch = 0; microbatch < index_.num_microbatches; ++microbatch) {
          const Action action{kind, virtual_stage, microbatch};
          if (position_[index_.Of(action)] < 0) {
            Report("stage ", index_.StageOf(action), ": ", ToString(action), " is missing");
          }
        }
      }
    }
  }

  void CheckBefore(const Action& first, const Action& second) {
    if (!index_.IsNeeded(first) || !index_.IsNeeded(second)) return;
    if (position_[index_.Of(first)] > position_[index_.Of(second)]) {
      Report("stage ", index_.StageOf(first), ": ", ToString(second), " runs before ",
             ToString(first));
    }
  }

  void CheckOrderOnEachStage() {
    for (int v = 0; v < index_.num_virtual_stages; ++v) {
      for (int microbatch = 0; microbatch < index_.num_microbatches; ++microbatch) {
        const Action forward{ActionKind::kForward, v, microbatch};
        const Action backward{
            index_.splits_backward ? ActionKind::kBackwardInput : ActionKind::kBackward, v,
            microbatch};
        CheckBefore(forward, backward);
        CheckBefore({ActionKind::kRecvForward, v, microbatch}, forward);
        CheckBefore(forward, {ActionKind::kSendForward, v, microbatch});
        CheckBefore({ActionKind::kRecvBackward, v, microbatch}, backward);
        CheckBefore(backward, {ActionKind::kSendBackward, v, microbatch});
        CheckBefore(backward, {ActionKind::kBackwardWeight, v, microbatch});
      }
    }
  }

  // The actions of `stage` accepted by `accepts` whose other end is on `peer`, in order.
  std::vector<Action> TransfersWith(int stage, int peer, bool (*accepts)(ActionKind)) const {
    std::vector<Action> transfers;
    for (const Action& action : schedule_.actions_by_stage[stage]) {
      if (accepts(action.kind) && index_.StageOf(CounterpartOf(action)) == peer) {
        transfers.push_back(action);
      }
    }
    return transfers;
  }

  // NCCL has no tags: between two ranks the n-th send meets the n-th receive.
  void CheckOrderBetweenStages() {
    for (int stage = 0; stage < schedule_.num_stages; ++stage) {
      const int next = (stage + 1) % schedule_.num_stages;
      const int previous = (stage + schedule_.num_stages - 1) % schedule_.num_stages;
      CheckOrderFromTo(stage, next);
      if (previous != next) CheckOrderFromTo(stage, previous);
    }
  }

  void CheckOrderFromTo(int from, int to) {
    const std::vector<Action> sends = TransfersWith(from, to, IsSend);
    const std::vector<Action> recvs = TransfersWith(to, from, IsRecv);
    // Equally many: each has its counterpart, or it would be missing.
    for (size_t i = 0; i < sends.size(); ++i) {
      const Action expected = CounterpartOf(recvs[i]);
      if (index_.Of(sends[i]) != index_.Of(expected)) {
        Report("stage ", from, " sends ", ToString(sends[i]), " where stage ", to, " receives ",
               ToString(expected), " first");
        return;
      }
    }
  }

  // One past the last action of the exchange that starts at `begin`.
  static size_t EndOfExchange(const std::vector<Action>& actions, size_t begin) {
    size_t end = begin;
    while (end < actions.size() && actions[end].exchange == actions[begin].exchange) ++end;
    return end;
  }

  // Plays the schedule with sends that wait until their receive is posted, each exchange posted as
  // a whole and left when all of it has been met. The order of play cannot change who gets stuck.
  void CheckRendezvous() {
    const size_t num_stages = schedule_.actions_by_stage.size();
    std::vector<size_t> begin(num_stages, 0);  // of the exchange that the stage stands in
    std::vector<size_t> end(num_stages, 0);
    std::vector<int> num_unmet(num_stages, 0);  // of that exchange
    std::vector<bool> is_posted(index_.size(), false);
    std::vector<int> ready;
    for (int stage = 0; stage < schedule_.num_stages; ++stage) ready.push_back(stage);
    while (!ready.empty()) {
      const int stage = ready.back();
      ready.pop_back();
      const std::vector<Action>& actions = schedule_.actions_by_stage[stage];
      size_t i = end[stage];
      while (i < actions.size() && !IsTransfer(actions[i].kind)) ++i;
      begin[stage] = i;
      end[stage] = i < actions.size() ? EndOfExchange(actions, i) : i;
      num_unmet[stage] = static_cast<int>(end[stage] - begin[stage]);
      for (; i < end[stage]; ++i) {
        is_posted[index_.Of(actions[i])] = true;
        const Action counterpart = CounterpartOf(actions[i]);
        if (!is_posted[index_.Of(counterpart)]) continue;
        --num_unmet[stage];
        const int peer = index_.StageOf(counterpart);
        if (--num_unmet[peer] == 0) ready.push_back(peer);
      }
      if (num_unmet[stage] == 0 && begin[stage] < actions.size()) ready.push_back(stage);
    }
    ReportStuck(begin, end);
  }

  void ReportStuck(const std::vector<size_t>& begin, const std::vector<size_t>& end) {
    std::string stuck;
    for (int stage = 0; stage < schedule_.num_stages; ++stage) {
      const std::vector<Action>& actions = schedule_.actions_by_stage[stage];
      if (begin[stage] == actions.size()) continue;
      stuck += base::Concat(stuck.empty() ? "" : ", ", "stage ", stage, " in ",
                            ToString(std::vector<Action>(actions.begin() + begin[stage],
                                                         actions.begin() + end[stage])));
    }
    if (!stuck.empty()) Report("deadlock when a send waits for its receive: ", stuck);
  }

  const PipelineSchedule& schedule_;
  ActionIndex index_;
  std::vector<int> position_;  // on its stage, by ActionIndex; -1: absent
  std::vector<std::string> messages_;
};

}  // namespace

std::vector<std::string> ValidateSchedule(const PipelineSchedule& schedule) {
  if (schedule.num_stages < 1 || schedule.num_chunks < 1 || schedule.num_microbatches < 1 ||
      static_cast<int>(schedule.actions_by_stage.size()) != schedule.num_stages) {
    return {base::Concat("the schedule has ", schedule.num_stages, " stages, ", schedule.num_chunks,
                         " chunks, ", schedule.num_microbatches, " micro-batches and actions for ",
                         schedule.actions_by_stage.size(), " stages")};
  }
  return Validator(schedule).Run();
}

}  // namespace tessera::spec
