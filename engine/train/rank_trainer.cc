#include "engine/train/rank_trainer.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/spec/training_schedule.h"
#include "cost_model/spec/workspace.h"

namespace tessera::engine {
namespace {

// Keeps the clipping factor finite at a zero norm, as PyTorch's and Megatron-LM's clipping do.
constexpr double kClipEpsilon = 1e-6;

std::vector<StageModel> MakeChunks(const LayerContext& context, const ParameterStore& store,
                                   const std::vector<spec::VirtualStage>& stages,
                                   PartHooks& hooks) {
  std::vector<StageModel> chunks;
  for (const spec::VirtualStage& stage : stages) chunks.emplace_back(context, store, stage, hooks);
  return chunks;
}

// What the plan predicts for the rank's stage; none where host memory serves as well block by
// block, or nothing was predicted.
int64_t ArenaBytes(const spec::Plan& plan, const kernels::Backend& backend, int rank) {
  if (backend.is_host_memory() || !plan.prediction) return 0;
  const auto stage = static_cast<size_t>(spec::RankLayout(plan.parallel).CoordOf(rank).pipeline);
  return ArenaBytesFor(plan.prediction->stages.at(stage).Allocated());
}

Buffer AllocateWorkspace(MemoryPool& pool, kernels::Backend& backend) {
  if (backend.is_host_memory()) return {};
  Buffer workspace = pool.Allocate(MemoryKind::kWorkspace, base::DType::kUInt8,
                                   spec::kGpuWorkspaceBytes, Lifetime::kStep);
  backend.AttachWorkspace(workspace.data(), workspace.bytes());
  return workspace;
}

// Where ranks share the cores of a machine, what is reduced meanwhile slows down what computes;
// where data goes through the host, each reduction would stop the pass.
bool OverlapsReduction(const spec::Plan& plan, const RankDevice& device) {
  return plan.parallel.overlap_grad_reduce && plan.cluster.shared_compute_units == 0 &&
         !device.comm_blocks_host();
}

// Of an optimizer on the host, whose cores the ranks share.
int HostThreads(const spec::Plan& plan) {
  if (plan.threads_per_rank > 0) return plan.threads_per_rank;
  const int num_cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(
      1, num_cores / std::max(1, std::min(plan.num_devices, plan.cluster.devices_per_node)));
}

std::vector<spec::Action> ActionsOf(const spec::Plan& plan, const spec::RankCoord& coord,
                                    int num_microbatches) {
  return spec::MakeSchedule(plan.parallel, num_microbatches)
      .actions_by_stage.at(static_cast<size_t>(coord.pipeline));
}

double ClipFactor(double norm, double clip) {
  return clip > 0 && norm > clip ? clip / (norm + kClipEpsilon) : 1.0;
}

}  // namespace

RankTrainer::RankTrainer(const spec::Plan& plan, RankDevice& device, Communicator& host_world,
                         const SampleSource& source, std::optional<MemoryPoolOptions> memory)
    : plan_(plan),
      device_(device),
      backend_(device.backend()),
      host_world_(host_world),
      pool_(backend_, memory.value_or(MemoryPoolOptions{
                          .arena_bytes = ArenaBytes(plan, backend_, host_world.rank())})),
      backend_workspace_(AllocateWorkspace(pool_, backend_)),
      device_sums_(pool_.Allocate(MemoryKind::kWorkspace, base::DType::kUInt8, spec::kStepSumsBytes,
                                  Lifetime::kStep)),
      groups_(device.world(), plan.parallel, plan.model.num_key_value_heads),
      loss_{.sum = &device_sums()->loss,
            .balance_sum = &device_sums()->balance_loss,
            .router_z_sum = &device_sums()->router_z_loss},
      dropout_{.probabilities = plan.training.dropout, .seed = plan.training.seed},
      context_{.backend = backend_,
               .pool = pool_,
               .groups = groups_,
               .model = plan.model,
               .parallel = plan.parallel,
               .types = spec::TypesOf(plan.training.precision),
               .shape = spec::MakeLocalShape(plan.model, plan.training, plan.parallel,
                                             groups_.coord.context),
               .loss = loss_,
               .tensor_comm = tensor_comm_,
               .context_comm = context_comm_,
               .expert_comm = expert_comm_,
               .part = part_,
               .dropout = dropout_,
               .documents = documents_},
      stages_(
          spec::StagesOf(spec::PartitionStages(plan.model, plan.parallel), groups_.coord.pipeline)),
      store_(stages_, plan.model, plan.parallel, context_.types, groups_, pool_),
      gatherer_(context_, store_, shard_comm_),
      reducer_(context_, store_, shard_comm_, OverlapsReduction(plan, device)),
      traffic_(gatherer_, reducer_),
      chunks_(MakeChunks(context_, store_, stages_, traffic_)),
      optimizer_(context_, store_,
                 {.host_threads = HostThreads(plan),
                  .decay_embeddings = plan.training.optimizer.decay_embeddings}),
      scaler_(plan.training.precision),
      loader_(source, plan.training, plan.parallel, groups_.coord),
      num_microbatches_(static_cast<int>(spec::NumMicrobatches(plan.training, plan.parallel))),
      inputs_(backend_, SizesOfInputs(num_microbatches_)),
      actions_(ActionsOf(plan, groups_.coord, num_microbatches_)),
      runner_(
          context_, chunks_, [this](int microbatch) { return LoadMicrobatch(microbatch); },
          actions_,
          OverlapsReduction(plan, device) ? [this](int layer) { reducer_.OnLayerDone(layer); }
                                          : std::function<void(int)>()),
      batch_size_(plan.training.global_batch_size),
      schedule_length_(spec::ScheduleLength(plan.training)) {
  HostState initial = EmptyState(HostState::Parts::kWeights);  // moments are zeros by now
  store_.DrawInitialWeights(plan.training.seed, initial.state().weights);
  initial.Upload();
}

StepResult RankTrainer::Step(bool stop_requested) {
  using spec::PhaseKind;
  StepResult result{.step = step_ + 1};
  device_.world().BeginStep(result.step);
  dropout_.step = result.step;
  SetBatch();
  marks_ = {};
  backend_.Mark();
  RunPhase(marks_, PhaseKind::kOther, [&] {
    num_targets_ = CountTargets();
    BeginSums();
    backend_.Fill(store_.gradients(), store_.num_gradients(), 0.0F);
  });
  RunPasses();
  // All stages meet here: the first to be done waits for the slowest.
  const double blocked_before_s = host_world_.blocked_s();
  StepMeeting meeting;
  RunPhase(marks_, PhaseKind::kWait, [&] { meeting = MeetRanks(stop_requested); });
  const double blocked_s = host_world_.blocked_s() - blocked_before_s;
  result.skipped = !Judge(meeting, result);
  if (result.skipped) {
    ++num_skipped_;
  } else {
    Update(result);
    scaler_.OnGoodStep();
  }
  backend_.Mark();
  mark_times_s_ = backend_.TakeMarks();
  timeline_ = TimelineOf(marks_, mark_times_s_);
  result.time = BreakdownOf(marks_, mark_times_s_, blocked_s);
  result.step_time_s = mark_times_s_.back();
  last_compute_s_ = result.time.Compute();
  ++step_;
  consumed_samples_ += batch_size_;
  return result;
}

void RankTrainer::SetBatch() {
  const int64_t batch_size = spec::BatchSizeAt(plan_.training, consumed_samples_);
  if (batch_size == batch_size_) return;
  batch_size_ = batch_size;
  num_microbatches_ = static_cast<int>(batch_size / spec::SamplesPerRound(plan_.parallel));
  actions_ = ActionsOf(plan_, groups_.coord, num_microbatches_);
  runner_.SetActions(actions_);
}

bool RankTrainer::NeedsInputs() const {
  return std::any_of(stages_.begin(), stages_.end(), [&](const spec::VirtualStage& stage) {
    return stage.has_embedding || stage.has_head ||
           !DocumentSavedTensors(plan_.model, context_.shape, stage).empty();
  });
}

InputSizes RankTrainer::SizesOfInputs(int num_microbatches) const {
  const spec::TrainingSpec& training = plan_.training;
  const bool has_documents = training.reset_position_ids || training.reset_attention_mask;
  return {.num_microbatches = NeedsInputs() ? num_microbatches : 0,
          .tokens = context_.shape.tokens,
          .document_starts = has_documents ? context_.shape.batch * training.sequence_length : 0};
}

Microbatch RankTrainer::LoadMicrobatch(int microbatch) {
  if (!NeedsInputs()) return {};
  return inputs_.Get(consumed_samples_, microbatch,
                     [&] { return loader_.Load(consumed_samples_, microbatch); });
}

int64_t RankTrainer::CountTargets() {
  if (!plan_.training.eod_mask_loss) return NumTokens();
  StepSums mine;
  for (int microbatch = 0; TellsLoss() && microbatch < num_microbatches_; ++microbatch) {
    mine.num_targets += CountTargetsIn(LoadMicrobatch(microbatch), context_.shape.tokens);
  }
  return std::max<int64_t>(1, MeetAtStepEnd(host_world_, mine).sums.num_targets);
}

void RankTrainer::CallPasses(StepMarks& marks) {
  using spec::PhaseKind;
  marks.pipeline = ExecuteSchedule(actions_, runner_);
  RunPhase(marks, PhaseKind::kReduceGradients, [&] { reducer_.Finish(); });
  RunPhase(marks, PhaseKind::kOther,
           [&] { optimizer_.AddSquaredNorm(&device_sums()->squared_norm); });
  marks.tensor_comm = tensor_comm_.Take();
  marks.shard_comm = shard_comm_.Take();
  marks.expert_comm = expert_comm_.Take();
  marks.context_comm = context_comm_.Take();
}

void RankTrainer::RunPasses() {
  if (!step_graph_) return CallPasses(marks_);
  const auto fill_inputs = [&] {
    for (int microbatch = 0; microbatch < num_microbatches_; ++microbatch) {
      LoadMicrobatch(microbatch);
    }
  };
  step_graph_->Run({.call = [&](StepMarks& marks) { CallPasses(marks); },
                    .fill_inputs = fill_inputs,
                    .grad_scale = loss_.grad_scale,
                    .num_microbatches = num_microbatches_},
                   marks_);
}

void RankTrainer::BeginSums() {
  loss_.grad_scale = static_cast<float>(scaler_.scale() / static_cast<double>(num_targets_));
  loss_.router_grad_scale = static_cast<float>(scaler_.scale() / static_cast<double>(NumTokens()));
  const DeviceSums zeros;
  backend_.CopyToDevice(device_sums(), &zeros, sizeof(zeros));
}

RankTrainer::DeviceSums RankTrainer::ReadDeviceSums() const {
  DeviceSums sums;
  backend_.CopyToHost(&sums, device_sums(), sizeof(sums));
  return sums;
}

StepMeeting RankTrainer::MeetRanks(bool stop_requested) {
  const DeviceSums of_device = ReadDeviceSums();
  // Every tensor-parallel rank of the last stage knows the loss; one of them tells. Of the routers'
  // losses each knows the part of the tokens that it routes.
  return MeetAtStepEnd(
      host_world_, {.loss = TellsLoss() ? of_device.loss : 0,
                    .balance_loss = of_device.balance_loss,
                    .router_z_loss = of_device.router_z_loss,
                    .squared_norm = of_device.squared_norm,
                    .num_stop_requests = stop_requested ? 1 : 0,
                    .last_compute = {.pipeline = coord().pipeline, .compute_s = last_compute_s_}});
}

// Every rank sees the same sums: all throw, skip or go on.
bool RankTrainer::Judge(const StepMeeting& meeting, StepResult& result) {
  const StepSums& sums = meeting.sums;
  const auto num_tokens = static_cast<double>(NumTokens());
  result.loss = sums.loss / static_cast<double>(num_targets_);
  result.balance_loss = sums.balance_loss / num_tokens;
  result.router_z_loss = sums.router_z_loss / num_tokens;
  result.grad_norm = std::sqrt(sums.squared_norm) / scaler_.scale();
  result.loss_scale = scaler_.is_active() ? scaler_.scale() : 0;
  result.stop = sums.num_stop_requests > 0;
  result.straggler = meeting.straggler;
  result.batch_size = batch_size_;
  result.consumed_samples = consumed_samples_ + batch_size_;
  const spec::OptimizerSpec& optimizer = plan_.training.optimizer;
  const double place = spec::ScheduleStep(plan_.training, result.step, result.consumed_samples);
  result.lr = spec::LearningRate(optimizer, place, schedule_length_);
  result.weight_decay = spec::WeightDecay(optimizer, place, schedule_length_);
  if (std::isfinite(result.loss) && !std::isfinite(result.grad_norm) && scaler_.can_back_off()) {
    scaler_.OnSkippedStep();
    return false;
  }
  const Judgement judgement = guard_.Judge(result.loss, result.grad_norm);
  if (judgement.verdict == Verdict::kApply) return true;
  result.anomaly = judgement.reason;
  if (!judgement.is_finite) result.anomaly += ": " + FindFault(meeting);
  if (judgement.verdict == Verdict::kSkip) return false;
  throw DivergedError(base::Concat("training diverged at step ", result.step, ": ", result.anomaly,
                                   "; the step was not applied"));
}

void RankTrainer::Update(const StepResult& result) {
  const spec::OptimizerSpec& optimizer = plan_.training.optimizer;
  const AdamWOptimizer::Update update = {
      .lr = result.lr,
      .weight_decay = result.weight_decay,
      .grad_scale = ClipFactor(result.grad_norm, optimizer.clip_grad) / scaler_.scale(),
      .step = result.step - num_skipped_};
  RunPhase(marks_, spec::PhaseKind::kOptimizer, [&] { optimizer_.Step(optimizer, update); });
  const bool is_last = result.stop || result.step == plan_.training.steps;
  RunPhase(marks_, spec::PhaseKind::kGatherParameters, [&] { gatherer_.AfterUpdate(is_last); });
}

HostState RankTrainer::EmptyState(HostState::Parts parts) {
  gatherer_.WaitForAll();
  HostState host(context_, store_, optimizer_, parts);
  host.state().progress = {.step = step_,
                           .num_skipped_steps = num_skipped_,
                           .consumed_samples = consumed_samples_,
                           .loss_scale = scaler_.state(),
                           .recent = guard_.recent()};
  return host;
}

HostState RankTrainer::State() {
  HostState host = EmptyState(HostState::Parts::kAll);
  host.Download();
  return host;
}

ReplicaCheck RankTrainer::CheckReplicas(ReplicaKind kind) {
  gatherer_.WaitForAll();
  return engine::CheckReplicas(store_, backend_, host_world_, kind, step_);
}

void RankTrainer::WatchReduction() {
  if (plan_.parallel.zero_stage == 0) return;
  reduction_check_.emplace(store_, groups_, backend_);
  reducer_.set_check(&*reduction_check_);
}

int64_t RankTrainer::CheckReduction() {
  if (!reduction_check_) return 0;
  reducer_.set_check(nullptr);
  const ReductionCheck check = *std::exchange(reduction_check_, std::nullopt);
  const std::string mistake = check.FindMistake(host_world_);
  if (!mistake.empty()) throw ReplicaError(base::Concat("step ", step_, ": ", mistake));
  return check.num_pieces();
}

void RankTrainer::SetProgress(const TrainProgress& progress) {
  step_ = progress.step;
  num_skipped_ = progress.num_skipped_steps;
  consumed_samples_ = progress.consumed_samples;
  scaler_.Restore(progress.loss_scale);
  guard_ = StepGuard(guard_.options(), progress.recent);
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
