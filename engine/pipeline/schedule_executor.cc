#include "engine/pipeline/schedule_executor.h"

#include "engine/pipeline/stopwatch.h"

namespace tessera::engine {
namespace {

// End of the exchange that starts at `first`.
size_t ExchangeEnd(const std::vector<spec::Action>& actions, size_t first) {
  size_t end = first + 1;
  while (actions[first].exchange >= 0 && end < actions.size() &&
         actions[end].exchange == actions[first].exchange) {
    ++end;
  }
  return end;
}

}  // namespace

std::vector<spec::TimedAction> ExecuteSchedule(const std::vector<spec::Action>& actions,
                                               StageRunner& runner) {
  const Stopwatch watch;
  std::vector<spec::TimedAction> timeline;
  timeline.reserve(actions.size());
  for (size_t i = 0; i < actions.size();) {
    size_t end = i + 1;
    const double start_s = watch.seconds();
    switch (actions[i].kind) {
      case spec::ActionKind::kForward: runner.Forward(actions[i]); break;
      case spec::ActionKind::kBackward: runner.Backward(actions[i]); break;
      default:
        end = ExchangeEnd(actions, i);
        runner.Exchange(std::span(actions).subspan(i, end - i));
    }
    const double end_s = watch.seconds();
    for (; i < end; ++i) timeline.push_back({actions[i], start_s, end_s});
  }
  return timeline;
}

}  // namespace tessera::engine
