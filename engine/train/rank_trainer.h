// The training state and the step of one rank, as the plan says. Owns no loop, files or output.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cost_model/spec/plan.h"
#include "cost_model/spec/timeline.h"
#include "cost_model/spec/workspace.h"
#include "engine/device/rank_device.h"
#include "engine/layers/stage_model.h"
#include "engine/optimizer/adamw_optimizer.h"
#include "engine/optimizer/gradient_reduction.h"
#include "engine/optimizer/host_state.h"
#include "engine/optimizer/loss_scaler.h"
#include "engine/optimizer/parameter_gathering.h"
#include "engine/pipeline/pipeline_runner.h"
#include "engine/train/batch_loader.h"
#include "engine/train/input_slots.h"
#include "engine/train/replica_check.h"
#include "engine/train/step_clock.h"
#include "engine/train/step_graph.h"
#include "engine/train/step_guard.h"
#include "engine/train/step_sums.h"

namespace tessera::engine {

// The loss or the gradients of a step are no numbers any more.
class DivergedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StepResult {
  int64_t step = 0;  // from 1
  int64_t consumed_samples = 0;
  double loss = 0;  // mean over all tokens of the global batch
  // Of the routers of all layers, beside the loss: means over all tokens, times the coefficients.
  double balance_loss = 0;
  double router_z_loss = 0;
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double weight_decay = 0;
  int64_t batch_size = 0;  // samples of all ranks
  double step_time_s = 0;
  // fp16: what the loss was multiplied with, 0 in other precisions; whether the gradients
  // overflowed with it, so that nothing was updated and the next step tries a smaller one.
  double loss_scale = 0;
  bool skipped = false;
  std::string anomaly;  // why else it was skipped: what was found, and where
  bool stop = false;    // some rank asked to stop after this step
  std::optional<Straggler>
      straggler;             // of the step before this one, as ranks tell each other at its end
  spec::TimeBreakdown time;  // of this rank
};

class RankTrainer {
 public:
  // Builds this rank's groups, parameters (initialised from the seed) and optimizer state on
  // `device`; what the ranks tell each other of a step goes over `host_world`. Collective. All
  // arguments must outlive the trainer. On a device with memory of its own all memory is one arena
  // of the plan's predicted size; `memory`, of tests, says otherwise.
  RankTrainer(const spec::Plan& plan, RankDevice& device, Communicator& host_world,
              const SampleSource& source, std::optional<MemoryPoolOptions> memory = std::nullopt);

  // From now on the passes of a step are a graph of the device (see CheckGraphs); observers then
  // see them in the first two steps alone.
  void UseGraphs() { step_graph_.emplace(backend_, host_world_); }

  // What to do from now on with a step whose numbers are no numbers, or far off.
  void SetGuard(const GuardOptions& options) { guard_ = StepGuard(options, guard_.recent()); }

  // One optimizer step over the next global batch. Collective. `stop_requested` of any rank is
  // reported to all. The host waits for the device twice, at the end: for the sums that all ranks
  // add up, and for the times. Throws DivergedError on every rank, before anything is updated, when
  // the loss or the gradient norm is not finite (of fp16, when no smaller loss scale is left), and
  // for whatever else the guard does not let pass; the message names the first tensor that is not
  // finite.
  StepResult Step(bool stop_requested);

  // Mean loss over the first samples of a source, by forward passes alone. Takes no more memory
  // than a step. Collective. REQUIRES: num_samples is a multiple of micro-batch size x data ranks.
  double EvaluateLoss(const SampleSource& source, int64_t num_samples);

  // The training state as it is now, for checkpoints. Lives no longer than the trainer.
  HostState State();
  // The same not yet filled, for loading.
  HostState EmptyState(HostState::Parts parts);
  // Where a loaded state stands.
  void SetProgress(const TrainProgress& progress);
  int64_t step() const { return step_; }

  // See replica_check.h: of the weights as they are now, or of the last step's reduced gradients.
  // Collective.
  ReplicaCheck CheckReplicas(ReplicaKind kind);

  // Whether the next step's sharded gradients will be what all ranks put in: to be asked for before
  // the step, and judged after it; throws ReplicaError on all ranks. Not for steps that are a
  // graph. Returns the number of pieces that were looked at. Collective.
  void WatchReduction();
  int64_t CheckReduction();

  // Bytes measured so far; buffers are the peak of the workspace.
  spec::StageMemory MeasuredMemory() const;
  // Device memory that the arena did not have; 0 where the prediction held.
  int64_t BeyondArenaBytes() const { return pool_.beyond_arena_bytes(); }
  // What the last step was made of.
  const spec::RankTimeline& last_timeline() const { return timeline_; }
  // Its marks of the backend in seconds from its start, for an observer that marked operations.
  const std::vector<double>& last_mark_times_s() const { return mark_times_s_; }

  const spec::RankCoord& coord() const { return groups_.coord; }
  const ParameterStore& store() const { return store_; }
  // For tests and profilers: operations of kernels and communicators.
  void set_observer(base::OpObserver* observer);

 private:
  // Passes through parts wait for parameters and leave gradients.
  class Traffic final : public PartHooks {
   public:
    Traffic(ParameterGatherer& gatherer, GradientReducer& reducer)
        : gatherer_(gatherer), reducer_(reducer) {}
    void BeforeForward(int part) override { gatherer_.BeforeForward(part); }
    void BeforeBackward(int part) override {
      gatherer_.BeforeBackward(part);
      reducer_.BeforeBackward(part);
    }
    void AfterBackward(int part) override { reducer_.AfterBackward(part); }

   private:
    ParameterGatherer& gatherer_;
    GradientReducer& reducer_;
  };

  // What a step adds up on the device.
  struct DeviceSums {
    double loss = 0;
    double balance_loss = 0;
    double router_z_loss = 0;
    double squared_norm = 0;
  };
  static_assert(sizeof(DeviceSums) == spec::kStepSumsBytes);
  DeviceSums* device_sums() const { return static_cast<DeviceSums*>(device_sums_.data()); }
  // Whether any of this rank's stages reads of a micro-batch more than what other stages send.
  bool NeedsInputs() const;
  // Of the inputs of so many micro-batches, or of none where none are needed.
  InputSizes SizesOfInputs(int num_microbatches) const;
  // The batch of the next step, and the actions for it.
  void SetBatch();
  Microbatch LoadMicrobatch(int microbatch);
  // Runs the forward passes of micro-batches and forgets what was marked. Their losses are added to
  // the device's sum.
  void RunForward(int num_microbatches, const std::function<Microbatch(int)>& data,
                  const ForwardOnlyRunner::Observer& observer);
  // Whether this rank tells the others the loss of its tokens, as one of its tensor group does.
  bool TellsLoss() const { return stages_.back().has_head && groups_.coord.tensor == 0; }
  int64_t NumTokens() const { return batch_size_ * plan_.training.sequence_length; }
  // Tokens of the global batch that count in its loss. Collective where some are masked.
  int64_t CountTargets();
  // From the first forward pass to this rank's share of the squared gradient norm.
  void CallPasses(StepMarks& marks);
  void RunPasses();
  void BeginSums();
  DeviceSums ReadDeviceSums() const;
  StepMeeting MeetRanks(bool stop_requested);
  // Fills the result from the sums; returns whether the step is to be applied.
  bool Judge(const StepMeeting& meeting, StepResult& result);
  // Where the numbers come from that are none.
  std::string FindFault(const StepMeeting& meeting);
  void Update(const StepResult& result);
  template <typename Work>
  void RunPhase(StepMarks& marks, spec::PhaseKind kind, Work&& work) {
    const size_t begin = backend_.Mark();
    work();
    marks.phases.push_back({kind, {begin, backend_.Mark()}});
  }

  const spec::Plan& plan_;
  RankDevice& device_;
  kernels::Backend& backend_;
  Communicator& host_world_;
  MemoryPool pool_;
  Buffer backend_workspace_;  // empty on the CPU
  Buffer device_sums_;
  ProcessGroups groups_;
  SpanLog tensor_comm_{backend_};
  SpanLog shard_comm_{backend_};
  SpanLog expert_comm_{backend_};
  SpanLog context_comm_{backend_};
  LossTarget loss_;
  BackwardPart part_;
  DropoutState dropout_;
  DocumentState documents_;
  LayerContext context_;
  std::vector<spec::VirtualStage> stages_;
  ParameterStore store_;
  ParameterGatherer gatherer_;
  GradientReducer reducer_;
  std::optional<ReductionCheck> reduction_check_;  // of the step to come, or just done
  Traffic traffic_;
  std::vector<StageModel> chunks_;
  AdamWOptimizer optimizer_;
  LossScaler scaler_;
  BatchLoader loader_;
  int num_microbatches_;  // of the running step
  InputSlots inputs_;
  std::optional<InputSlots> evaluation_inputs_;
  int64_t num_evaluation_rounds_ = 0;  // so far: what the slots are filled for
  std::vector<spec::Action> actions_;
  PipelineRunner runner_;
  spec::RankTimeline timeline_;
  std::vector<double> mark_times_s_;
  StepMarks marks_;  // of the running step
  StepGuard guard_{GuardOptions{}};
  int64_t batch_size_;       // of the running step
  int64_t num_targets_ = 0;  // of the running step
  double schedule_length_;
  double last_compute_s_ = 0;
  int64_t step_ = 0;
  int64_t num_skipped_ = 0;  // of these steps
  int64_t consumed_samples_ = 0;
  std::optional<StepGraph> step_graph_;  // goes before the communicators that it uses
};

}  // namespace tessera::engine
