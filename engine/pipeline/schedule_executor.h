// Runs one stage's part of a schedule, in order. Knows nothing about which schedule it is.
#pragma once

#include <span>
#include <vector>

#include "cost_model/spec/timeline.h"

namespace tessera::engine {

// What a stage must be able to do.
class StageRunner {
 public:
  virtual ~StageRunner() = default;
  virtual void Forward(const spec::Action& action) = 0;
  virtual void Backward(const spec::Action& action) = 0;
  // Sends and receives that are posted together and completed together.
  virtual void Exchange(std::span<const spec::Action> transfers) = 0;
};

// Executes the actions and returns when each began and ended, in seconds since the call. Transfers
// of one exchange share their times.
std::vector<spec::TimedAction> ExecuteSchedule(const std::vector<spec::Action>& actions,
                                               StageRunner& runner);

}  // namespace tessera::engine
