#include "engine/pipeline/schedule_executor.h"

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

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
      runner.BackwardInput(call.front());
      return;
    case spec::ActionKind::kBackwardWeight:
      runner.BackwardWeight(call.front());
      return;
    default:
      runner.Exchange(call);
      return;
  }
}

}  // namespace

MarkedTimeline ExecuteSchedule(const std::vector<spec::Action>& actions, StageRunner& runner) {
  MarkedTimeline timeline;
  timeline.actions.reserve(actions.size());
  size_t mark = runner.Mark();
  timeline.memory.push_back({mark, runner.HeldBytes()});
  const auto mark_wait = [&](bool has_waited) {
    if (!has_waited) return;
    const size_t begin = mark;
    mark = runner.Mark();
    timeline.waits.push_back({begin, mark});
  };
  while (timeline.actions.size() < actions.size()) {
    const std::span<const spec::Action> call = OneCall(actions, timeline.actions.size());
    const bool is_pass = !spec::IsTransfer(call.front().kind);
    if (is_pass) mark_wait(runner.AwaitInput(call.front()));
    const size_t begin = mark;
    Run(call, runner);
    mark = runner.Mark();
    for (const spec::Action& action : call) timeline.actions.push_back({action, begin, mark});
    if (is_pass) timeline.memory.push_back({mark, runner.HeldBytes()});
  }
  mark_wait(runner.AwaitAll());
  return timeline;
}

}  // namespace tessera::engine
