// Runs one stage's part of a pipeline schedule, whichever schedule it is.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::engine {

// What a pipeline stage must be able to do. Any call may throw; the schedule then ends there.
class StageRunner {
 public:
  virtual ~StageRunner() = default;

  // One micro-batch through one virtual stage of this rank.
  virtual void Forward(const spec::Action& action) = 0;
  virtual void Backward(const spec::Action& action) = 0;

  // One or several sends and receives: posts all, returns when all are complete. A send may
  // complete before its receive as long as the tensor sent stays untouched until then. The peer of
  // a transfer is the stage of spec::CounterpartOf(transfer).
  virtual void Exchange(std::span<const spec::Action> transfers) = 0;

  // A moment in the order of what the calls above do on the device (kernels::Backend::Mark).
  virtual size_t Mark() = 0;
  // Device memory that the rank holds now.
  virtual int64_t HeldBytes() const = 0;
};

// When the actions of a step ran, by marks.
struct MarkedTimeline {
  struct TimedAction {
    spec::Action action;
    size_t begin = 0;
    size_t end = 0;
  };
  struct MemorySample {
    size_t mark = 0;
    int64_t num_bytes = 0;
  };
  std::vector<TimedAction> actions;
  std::vector<MemorySample> memory;
};

// Calls `runner` for every action in order, once for each exchange. Returns when each action ran
// and what was held before the first and after each pass; the transfers of one exchange share its
// time.
MarkedTimeline ExecuteSchedule(const std::vector<spec::Action>& actions, StageRunner& runner);

}  // namespace tessera::engine
