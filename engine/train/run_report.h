// Turns the steps of a run into metrics rows and, at its end, one report over all ranks.
#pragma once

#include <vector>

#include "engine/train/train_job.h"

namespace tessera::engine {

class RunRecorder {
 public:
  // `plan` must outlive the recorder.
  RunRecorder(const spec::Plan& plan, int64_t first_step) : plan_(plan), first_step_(first_step) {}

  StepRow Add(const StepResult& result);
  int64_t last_step() const { return results_.empty() ? first_step_ : results_.back().step; }
  // Collective: what every rank measured, complete on every rank.
  TrainReport Collect(const RankTrainer& trainer, Communicator& world) const;

 private:
  // Steps that count: all but the first where there are more.
  size_t FirstMeasured() const { return results_.size() > 1 ? 1 : 0; }
  spec::TimeBreakdown MeanTime() const;
  double MedianStepTime() const;

  const spec::Plan& plan_;
  int64_t first_step_;
  std::vector<StepResult> results_;
};

}  // namespace tessera::engine
