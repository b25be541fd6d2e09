// The training state and the step of one rank, as the plan says. Owns no loop, files or output.
#pragma once

#include <stdexcept>
#include <vector>

#include "cost_model/spec/plan.h"
#include "cost_model/spec/timeline.h"
#include "engine/device/rank_device.h"
#include "engine/layers/stage_model.h"
#include "engine/optimizer/adamw_optimizer.h"
#include "engine/pipeline/pipeline_runner.h"
#include "engine/train/batch_loader.h"

namespace tessera::engine {

// The loss or the gradients of a step are no numbers any more.
class DivergedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StepResult {
  int64_t step = 0;  // from 1
  int64_t consumed_samples = 0;
  double loss = 0;       // mean over all tokens of the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double step_time_s = 0;
  bool stop = false;         // some rank asked to stop after this step
  spec::TimeBreakdown time;  // of this rank
};

class RankTrainer {
 public:
  // Builds this rank's groups, parameters (initialised from the seed) and optimizer state on
  // `device`; what the ranks tell each other of a step goes over `host_world`. Collective. All
  // arguments must outlive the trainer.
  RankTrainer(const spec::Plan& plan, RankDevice& device, Communicator& host_world,
              const SampleSource& source);

  // One optimizer step over the next global batch. Collective. `stop_requested` of any rank is
  // reported to all. Throws DivergedError on every rank, before anything is updated, when the loss
  // or the gradient norm is not finite.
  StepResult Step(bool stop_requested);

  // For checkpoints and weight loading; the pointers live as long as the trainer.
  TrainState State() const;
  // Where a loaded state stands.
  void SetProgress(int64_t step, int64_t consumed_samples);

  // Bytes measured so far; buffers are the peak of the workspace.
  spec::StageMemory MeasuredMemory() const;
  // What the last step was made of.
  const spec::RankTimeline& last_timeline() const { return timeline_; }

  const spec::RankCoord& coord() const { return groups_.coord; }
  const ParameterStore& store() const { return store_; }
  // For tests and profilers: operations of kernels and communicators.
  void set_observer(base::OpObserver* observer);

 private:
  // What all ranks learn of each other at the end of a step.
  struct StepSums {
    double loss_sum = 0;
    double squared_norm = 0;
    int64_t num_stop_requests = 0;
  };
  StepSums SumOverRanks(const StepSums& mine);
  double TakeLossSum();

  const spec::Plan& plan_;
  kernels::Backend& backend_;
  Communicator& host_world_;
  MemoryPool pool_;
  ProcessGroups groups_;
  LayerContext context_;
  std::vector<spec::VirtualStage> stages_;
  ParameterStore store_;
  std::vector<StageModel> chunks_;
  AdamWOptimizer optimizer_;
  BatchLoader loader_;
  PipelineRunner runner_;
  std::vector<spec::Action> actions_;
  spec::RankTimeline timeline_;
  int64_t step_ = 0;
  int64_t consumed_samples_ = 0;
};

}  // namespace tessera::engine
