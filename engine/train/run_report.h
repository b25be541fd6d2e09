// Turns the steps of a run into metrics rows and, at its end, one report over all ranks.
#pragma once

#include <optional>
#include <vector>

#include "engine/train/train_job.h"

namespace tessera::engine {

class RunRecorder {
 public:
  // `plan` must outlive the recorder.
  RunRecorder(const spec::Plan& plan, int64_t first_step) : plan_(plan), first_step_(first_step) {}

  StepRow Add(const StepResult& result);
  // After the step added last.
  void set_validation_loss(double loss) { validation_loss_ = loss; }
  int64_t last_step() const { return results_.empty() ? first_step_ : results_.back().step; }
  // Collective: what every rank measured, complete on every rank.
  TrainReport Collect(const RankTrainer& trainer, Communicator& world) const;

 private:
  // Steps that count: those with the batch of the last one, but for the run's first where there are
  // more.
  size_t FirstMeasured() const;
  spec::TimeBreakdown MeanTime() const;
  double MedianStepTime() const;

  const spec::Plan& plan_;
  int64_t first_step_;
  std::vector<StepResult> results_;
  std::optional<double> validation_loss_;
};

}  // namespace tessera::engine
