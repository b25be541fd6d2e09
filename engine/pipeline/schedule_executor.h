// Runs one stage's part of a pipeline schedule, whichever schedule it is.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cost_model/spec/pipeline_schedule.h"
#include "engine/tensor/span_log.h"

namespace tessera::engine {

// What a pipeline stage must be able to do. Any call may throw; the schedule then ends there.
class StageRunner {
 public:
  virtual ~StageRunner() = default;

  // One micro-batch through one virtual stage of this rank.
  virtual void Forward(const spec::Action& action) = 0;
  virtual void Backward(const spec::Action& action) = 0;
  // A backward pass in two parts: see spec::ActionKind.
  virtual void BackwardInput(const spec::Action& action) = 0;
  virtual void BackwardWeight(const spec::Action& action) = 0;

  // One or several sends and receives: posts all, returns when all are complete, or at once where
  // the schedule overlaps transfers (spec::PipelineSchedule). A send may complete before its
  // receive as long as the tensor sent stays untouched until then. The peer of a transfer is the
  // stage of spec::CounterpartOf(transfer).
  virtual void Exchange(std::span<const spec::Action> transfers) = 0;
  // Waits for exchanges under way: before a pass for that of its input, after the last action for
  // all. Returns whether there was one.
  virtual bool AwaitInput(const spec::Action& pass) = 0;
  virtual bool AwaitAll() = 0;

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
  std::vector<MarkedSpan> waits;  // for exchanges under way, between the actions
  std::vector<MemorySample> memory;
};

// Calls `runner` for every action in order, once for each exchange. Returns when each action ran
// and what was held before the first and after each pass; the transfers of one exchange share its
// time.
MarkedTimeline ExecuteSchedule(const std::vector<spec::Action>& actions, StageRunner& runner);

}  // namespace tessera::engine
