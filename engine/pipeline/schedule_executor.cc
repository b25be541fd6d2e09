#include "engine/pipeline/schedule_executor.h"

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

double SecondsSince(PipelineClock::time_point origin) {
  return std::chrono::duration<double>(PipelineClock::now() - origin).count();
}

// The actions from `first` on that run in one call: an exchange, or a single pass.
std::span<const spec::Action> OneCall(std::span<const spec::Action> actions, size_t first) {
  size_t end = first + 1;
  if (spec::IsTransfer(actions[first].kind)) {
    TESSERA_CHECK(actions[first].exchange >= 0, spec::ToString(actions[first]),
                  " belongs to no exchange");
    while (end < actions.size() && actions[end].exchange == actions[first].exchange) ++end;
  }
  return actions.subspan(first, end - first);
}

void Run(std::span<const spec::Action> call, StageRunner& runner) {
  switch (call.front().kind) {
    case spec::ActionKind::kForward:
      runner.Forward(call.front());
      return;
    case spec::ActionKind::kBackward:
      runner.Backward(call.front());
      return;
    case spec::ActionKind::kBackwardInput:
    case spec::ActionKind::kBackwardWeight:
      TESSERA_CHECK(false, "half a backward pass, ", spec::ToString(call.front()));
      return;
    default:
      runner.Exchange(call);
      return;
  }
}

}  // namespace

spec::RankTimeline ExecuteSchedule(const std::vector<spec::Action>& actions, StageRunner& runner,
                                   PipelineClock::time_point origin) {
  spec::RankTimeline timeline;
  timeline.actions.reserve(actions.size());
  timeline.memory.push_back({SecondsSince(origin), runner.HeldBytes()});
  while (timeline.actions.size() < actions.size()) {
    const std::span<const spec::Action> call = OneCall(actions, timeline.actions.size());
    const double start_s = SecondsSince(origin);
    Run(call, runner);
    const double end_s = SecondsSince(origin);
    for (const spec::Action& action : call) timeline.actions.push_back({action, start_s, end_s});
    if (!spec::IsTransfer(call.front().kind))
      timeline.memory.push_back({end_s, runner.HeldBytes()});
  }
  return timeline;
}

}  // namespace tessera::engine
