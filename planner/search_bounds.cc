#include "planner/search_bounds.h"

#include <algorithm>
#include <cmath>

#include "cost_model/overlap.h"
#include "cost_model/pipeline_run.h"
#include "cost_model/spec/flat_layout.h"
#include "cost_model/step_memory.h"

namespace tessera::planner {
namespace {

// What all wait for the slowest device grows with the pipeline's time.
double WithStraggler(const cost_model::JobCosts& costs, double pipeline_s) {
  return pipeline_s * (1 + costs.network().straggler_share);
}

// Work of the whole model for one micro-batch, as if on one stage.
double WholeModelSeconds(cost_model::JobCosts& costs, const spec::ParallelSpec& layout) {
  const spec::ModelSpec& model = costs.job().model;
  const spec::VirtualStage all{
      .num_layers = model.num_layers, .has_embedding = true, .has_head = true};
  const bool recomputes_all = layout.recomputed_layers_per_virtual_stage.empty();
  const spec::Recompute recompute = recomputes_all ? layout.recompute : spec::Recompute::kNone;
  const cost_model::BlockCost cost =
      cost_model::StageCost(costs.BlocksOf(layout, recompute), spec::CountForms(model, all), all);
  return cost.Forward() + cost.Backward();
}

// What virtual stages compute for a micro-batch, worked out anew only where one differs from that
// before.
class StageTimes {
 public:
  StageTimes(const spec::ModelSpec& model, const cost_model::BlockCosts& blocks)
      : model_(model), blocks_(blocks) {}

  void Enter(const spec::VirtualStage& stage) {
    const spec::PerForm<int> forms = spec::CountForms(model_, stage);
    const bool is_middle = !stage.has_embedding && !stage.has_head;
    if (is_middle && is_middle_ && forms == forms_) return;
    const cost_model::BlockCost cost = cost_model::StageCost(blocks_, forms, stage);
    forward_s_ = cost.Forward();
    backward_s_ = cost.Backward();
    is_middle_ = is_middle;
    forms_ = forms;
  }

  double forward_s() const { return forward_s_; }
  double backward_s() const { return backward_s_; }

 private:
  const spec::ModelSpec& model_;
  const cost_model::BlockCosts& blocks_;
  spec::PerForm<int> forms_ = {};
  bool is_middle_ = false;
  double forward_s_ = 0;
  double backward_s_ = 0;
};

}  // namespace

double StepTimeBound(cost_model::JobCosts& costs, const spec::ParallelSpec& layout) {
  const cost_model::Job& job = costs.job();
  const double work_s = WholeModelSeconds(costs, layout);
  const auto m = static_cast<double>(spec::NumMicrobatches(job.training, layout));
  const int p = layout.pipeline_parallel_size;
  double bound_s = m * work_s / p;
  const bool waits_for_whole_stages =
      layout.schedule == spec::ScheduleKind::kOneForwardOneBackward ||
      layout.schedule == spec::ScheduleKind::kGPipe;
  if (waits_for_whole_stages) bound_s = work_s / (1 - std::pow(1 - 1 / m, p));
  if (job.cluster.shared_compute_units > 0) {
    const double ranks_per_stage = static_cast<double>(job.num_devices) / p;
    bound_s = std::max(bound_s, m * work_s * ranks_per_stage / job.cluster.shared_compute_units);
  }
  return WithStraggler(costs, bound_s);
}

PartitionBound PartitionTimeBound(cost_model::JobCosts& costs, const spec::ParallelSpec& layout) {
  const cost_model::Job& job = costs.job();
  const bool recomputes_all = layout.recomputed_layers_per_virtual_stage.empty();
  const spec::Recompute recompute = recomputes_all ? layout.recompute : spec::Recompute::kNone;
  const cost_model::BlockCosts& blocks = costs.BlocksOf(layout, recompute);
  const auto m = static_cast<double>(spec::NumMicrobatches(job.training, layout));
  const int p = layout.pipeline_parallel_size;
  const bool ends_in_order = layout.schedule != spec::ScheduleKind::kZeroBubbleH1;
  const std::vector<spec::VirtualStage> stages = spec::PartitionStages(job.model, layout);
  StageTimes times(job.model, blocks);
  double before_s = 0;
  PartitionBound bound;
  for (int stage = 0; stage < p; ++stage) {
    double work_s = 0;
    double first_s = 0;  // of the stage's first chunk
    for (size_t i = stage; i < stages.size(); i += p) {
      times.Enter(stages[i]);
      const double forward_s = times.forward_s();
      const double all_s = forward_s + times.backward_s();
      work_s += all_s;
      if (stage == 0) bound.first_backward_s += times.backward_s();
      if (stages[i].chunk == 0) first_s = ends_in_order ? all_s : forward_s;
    }
    bound.time_s = std::max(bound.time_s, before_s + m * work_s);
    before_s += first_s;
  }
  bound.time_s = WithStraggler(costs, bound.time_s);
  return bound;
}

StageForms FewestLayers(const spec::ModelSpec& model, const spec::ParallelSpec& layout,
                        const std::vector<std::vector<int>>& partitions) {
  const auto reduce = [](spec::PerForm<int>& fewest, const spec::PerForm<int>& other) {
    for (size_t form = 0; form < fewest.size(); ++form) {
      fewest[form] = std::min(fewest[form], other[form]);
    }
  };
  StageForms fewest;
  spec::ParallelSpec partitioned = layout;
  for (const std::vector<int>& layers : partitions) {
    partitioned.layers_per_virtual_stage = layers;
    const auto stages = spec::PartitionStages(model, partitioned);
    if (fewest.empty()) {
      for (const auto& stage : stages) fewest.push_back(spec::CountForms(model, stage));
    }
    for (size_t i = 0; i < stages.size(); ++i)
      reduce(fewest[i], spec::CountForms(model, stages[i]));
  }
  const size_t p = layout.pipeline_parallel_size;
  for (size_t i = p; i < fewest.size(); ++i) reduce(fewest[i % p], fewest[i]);
  for (size_t i = p; i < fewest.size(); ++i) fewest[i] = fewest[i % p];
  return fewest;
}

double NeededBound(cost_model::JobCosts& costs, const spec::ParallelSpec& layout,
                   const StageForms& fewest, double enough_bytes) {
  cost_model::StepParts parts;
  parts.num_microbatches = spec::NumMicrobatches(costs.job().training, layout);
  parts.forms = fewest;
  return cost_model::StepBytesOf(costs, layout, parts, cost_model::Padding::kNone, enough_bytes)
      .needed_bytes;
}

double EndTimeBound(cost_model::JobCosts& costs, const spec::ParallelSpec& layout,
                    const StageForms& fewest, double window_s) {
  const cost_model::Job& job = costs.job();
  if (job.cluster.shared_compute_units > 0) return 0;
  cost_model::StepParts parts;
  parts.forms = fewest;
  const cost_model::StageParameterCounts parameters = cost_model::CountParameters(
      costs.ParametersOf(layout), cost_model::PipelineStageForms(parts, layout, /*stage=*/0),
      /*has_embedding=*/true, /*has_head=*/layout.pipeline_parallel_size == 1);
  const cost_model::UpdateCost update =
      cost_model::MakeUpdateCost(costs, layout, cost_model::MakeLayoutGroups(layout), parameters);
  const double slowdown = job.cluster.collectives.overlap_slowdown;
  const double hidden_share = 1 / (1 + slowdown);
  double seconds = update.optimizer_s + update.other_s;
  seconds += update.gather_comm_s * (layout.overlap_param_gather ? 1 - hidden_share : 1);
  const bool ends_with_first = layout.schedule != spec::ScheduleKind::kZeroBubbleH1;
  if (!ends_with_first || spec::ReducesEachMicrobatch(layout)) return seconds;
  seconds += update.tied_comm_s + update.tensor_comm_s;
  // In fewer buckets less is hidden; how many there are is not known.
  seconds += cost_model::OverlapsReduction(costs, layout)
                 ? cost_model::ExposedSeconds(update.gradient_comm_s, window_s, slowdown)
                 : update.gradient_comm_s;
  return seconds;
}

double ExactTimeBound(const cost_model::JobCosts& costs, double fast_s) {
  constexpr double kRounding = 1e-9;
  constexpr double kExtrapolation = 0.02;
  const bool is_crowded = cost_model::Oversubscription(costs) > 1;
  return fast_s * (1 - (is_crowded ? kExtrapolation : kRounding));
}

}  // namespace tessera::planner
