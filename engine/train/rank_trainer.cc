#include "engine/train/rank_trainer.h"

#include <cmath>
#include <utility>

#include "cost_model/base/check.h"
#include "engine/optimizer/gradient_reduction.h"

namespace tessera::engine {
namespace {

// Keeps the clipping factor finite at a zero norm, as PyTorch's and Megatron-LM's clipping do.
constexpr double kClipEpsilon = 1e-6;

float TokenWeight(const spec::TrainingSpec& training) {
  return static_cast<float>(
      1.0 / static_cast<double>(training.global_batch_size * training.sequence_length));
}

std::vector<StageModel> MakeChunks(const LayerContext& context, const ParameterStore& store,
                                   const std::vector<spec::VirtualStage>& stages,
                                   float grad_scale) {
  std::vector<StageModel> chunks;
  for (const spec::VirtualStage& stage : stages) {
    chunks.emplace_back(context, store, stage, grad_scale);
  }
  return chunks;
}

// Every rank sees the same sums: all throw, or none.
void CheckFinite(const StepResult& result) {
  if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) return;
  throw DivergedError(base::Concat("training diverged at step ", result.step, ": loss ",
                                   result.loss, ", gradient norm ", result.grad_norm,
                                   "; the step was not applied"));
}

// Times what follows the pipeline, phase by phase.
class PhaseTimer {
 public:
  PhaseTimer(PipelineClock::time_point origin, std::vector<spec::TimedPhase>& phases)
      : origin_(origin), phases_(phases) {}

  // Seconds that `work` took.
  template <typename Work>
  double Run(spec::PhaseKind kind, Work&& work) {
    const double start_s = Now();
    work();
    phases_.push_back({kind, start_s, Now()});
    return phases_.back().end_s - start_s;
  }

  double Now() const {
    return std::chrono::duration<double>(PipelineClock::now() - origin_).count();
  }

 private:
  PipelineClock::time_point origin_;
  std::vector<spec::TimedPhase>& phases_;
};

double ClipFactor(double norm, double clip) {
  return clip > 0 && norm > clip ? clip / (norm + kClipEpsilon) : 1.0;
}

}  // namespace

RankTrainer::RankTrainer(const spec::Plan& plan, RankDevice& device, Communicator& host_world,
                         const SampleSource& source)
    : plan_(plan),
      backend_(device.backend()),
      host_world_(host_world),
      pool_(backend_),
      groups_(device.world(), plan.parallel, plan.model.num_key_value_heads),
      context_{.backend = backend_,
               .pool = pool_,
               .groups = groups_,
               .model = plan.model,
               .parallel = plan.parallel,
               .shape = spec::MakeLocalShape(plan.model, plan.training, plan.parallel)},
      stages_(
          spec::StagesOf(spec::PartitionStages(plan.model, plan.parallel), groups_.coord.pipeline)),
      store_(stages_, plan.model, plan.parallel, groups_.coord.tensor, pool_),
      chunks_(MakeChunks(context_, store_, stages_, TokenWeight(plan.training))),
      optimizer_(context_, store_),
      loader_(source, plan.training, plan.parallel, groups_.coord.data),
      runner_(context_, chunks_,
              [this](int microbatch) {
                const bool needs_tokens = stages_.front().has_embedding || stages_.back().has_head;
                return needs_tokens ? loader_.Load(consumed_samples_, microbatch) : Microbatch{};
              }),
      actions_(spec::MakeSchedule(plan.parallel, static_cast<int>(spec::NumMicrobatches(
                                                     plan.training, plan.parallel)))
                   .actions_by_stage.at(static_cast<size_t>(groups_.coord.pipeline))) {
  store_.Initialize(plan.training.seed);
}

StepResult RankTrainer::Step(bool stop_requested) {
  using spec::PhaseKind;
  const auto origin = PipelineClock::now();
  StepResult result{.step = step_ + 1};
  std::vector<spec::TimedPhase> phases;
  PhaseTimer timer(origin, phases);
  timer.Run(PhaseKind::kOther,
            [&] { backend_.Fill(store_.gradients(), store_.layout().num_elements, 0.0F); });
  timeline_ = ExecuteSchedule(actions_, runner_, origin);
  result.time.dp_comm_s =
      timer.Run(PhaseKind::kReduceGradients, [&] { ReduceGradients(context_, store_); });
  StepSums sums{.loss_sum = TakeLossSum(), .num_stop_requests = stop_requested ? 1 : 0};
  timer.Run(PhaseKind::kOther, [&] { sums.squared_norm = optimizer_.LocalSquaredNorm(); });
  // All stages meet here: the first to be done waits for the slowest.
  const double blocked_before_s = host_world_.blocked_s();
  timer.Run(PhaseKind::kWait, [&] { sums = SumOverRanks(sums); });
  result.time.bubble_s = host_world_.blocked_s() - blocked_before_s;
  result.loss = sums.loss_sum / static_cast<double>(plan_.training.global_batch_size *
                                                    plan_.training.sequence_length);
  result.grad_norm = std::sqrt(sums.squared_norm);
  result.stop = sums.num_stop_requests > 0;
  CheckFinite(result);
  result.lr = spec::LearningRate(plan_.training.optimizer, result.step, plan_.training.steps);
  result.time.optimizer_s = timer.Run(PhaseKind::kOptimizer, [&] {
    optimizer_.Step(plan_.training.optimizer, result.lr,
                    ClipFactor(result.grad_norm, plan_.training.optimizer.clip_grad), result.step);
  });
  result.time.dp_comm_s +=
      timer.Run(PhaseKind::kGatherParameters, [&] { GatherWeights(context_, store_); });

  const PassTimes passes = runner_.TakeTimes();
  result.time.forward_s = passes.forward_s;
  result.time.backward_s = passes.backward_s;
  result.time.tp_comm_s = passes.tensor_comm_s;
  result.time.bubble_s += passes.pipeline_wait_s;
  result.step_time_s = timer.Now();
  result.time.other_s = result.step_time_s - result.time.Total();
  timeline_.phases = std::move(phases);
  ++step_;
  consumed_samples_ += plan_.training.global_batch_size;
  result.consumed_samples = consumed_samples_;
  return result;
}

RankTrainer::StepSums RankTrainer::SumOverRanks(const StepSums& mine) {
  std::vector<StepSums> all(static_cast<size_t>(host_world_.size()));
  host_world_.AllGather(&mine, all.data(), sizeof(StepSums), base::DType::kUInt8);
  StepSums sums;
  for (const StepSums& rank : all) {
    sums.loss_sum += rank.loss_sum;
    sums.squared_norm += rank.squared_norm;
    sums.num_stop_requests += rank.num_stop_requests;
  }
  return sums;
}

// Every tensor-parallel rank of the last stage knows the loss; one of them tells.
double RankTrainer::TakeLossSum() {
  double sum = 0;
  for (StageModel& chunk : chunks_) sum += chunk.TakeLossSum();
  return groups_.coord.tensor == 0 ? sum : 0;
}

TrainState RankTrainer::State() const {
  TrainState state = optimizer_.State(groups_.coord);
  state.step = step_;
  state.consumed_samples = consumed_samples_;
  return state;
}

void RankTrainer::SetProgress(int64_t step, int64_t consumed_samples) {
  step_ = step;
  consumed_samples_ = consumed_samples;
}

spec::StageMemory RankTrainer::MeasuredMemory() const {
  return {.weights_bytes = pool_.peak_bytes(MemoryKind::kWeights),
          .gradients_bytes = pool_.peak_bytes(MemoryKind::kGradients),
          .optimizer_bytes = pool_.peak_bytes(MemoryKind::kOptimizer),
          .activations_bytes = pool_.peak_bytes(MemoryKind::kActivations),
          .buffers_bytes = pool_.peak_bytes(MemoryKind::kWorkspace)};
}

void RankTrainer::set_observer(base::OpObserver* observer) {
  backend_.set_observer(observer);
  groups_.set_observer(observer);
  host_world_.set_observer(observer, static_cast<int>(spec::Axis::kWorld));
}

}  // namespace tessera::engine
