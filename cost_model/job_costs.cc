#include "cost_model/job_costs.h"

#include <utility>

#include "cost_model/memory.h"
#include "cost_model/spec/flat_layout.h"

namespace tessera::cost_model {
namespace {

// Packs what MicrobatchCost depends on. FindViolations keeps sizes below 2^31.
LayoutKey MicrobatchKey(const spec::ParallelSpec& parallel, spec::Recompute recompute) {
  LayoutKey key;
  key.AddSize(parallel.micro_batch_size);
  key.AddSize(parallel.tensor_parallel_size);
  key.AddSize(parallel.context_parallel_size);
  key.AddSize(parallel.expert_parallel_size);
  key.AddSize(parallel.expert_tensor_parallel_size);
  key.AddChoice(parallel.sequence_parallel);
  key.AddChoice(static_cast<uint64_t>(recompute));
  key.AddChoice(static_cast<uint64_t>(parallel.attention));
  key.AddChoice(static_cast<uint64_t>(parallel.context_kind));
  key.AddChoice(parallel.schedule == spec::ScheduleKind::kInterleaved);
  key.AddChoice(parallel.overlap_tp_comm);
  // In the usual rank order no axis that is missing here lies inside the groups of a layer.
  const static spec::ParallelSpec kUsual;
  key.AddSize(parallel.rank_order == kUsual.rank_order ? 0 : parallel.data_parallel_size);
  return key;
}

LayoutKey ParametersKey(const spec::ParallelSpec& parallel) {
  LayoutKey key;
  key.AddSize(parallel.tensor_parallel_size);
  key.AddSize(parallel.expert_parallel_size);
  key.AddSize(parallel.expert_tensor_parallel_size);
  key.AddChoice(parallel.sequence_parallel);
  key.AddChoice(parallel.pipeline_parallel_size > 1);
  return key;
}

MicrobatchCost MakeMicrobatchCost(const Job& job, const RankDevice& device, const Network& network,
                                  const spec::ParallelSpec& parallel) {
  MicrobatchCost cost;
  cost.shape = spec::MakeLocalShape(job.model, job.training, parallel);
  cost.blocks = MakeBlockCosts(job.model, job.training, parallel, device, network, job.convention);
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) {
    const spec::LayerForm form = spec::FormAt(i);
    if (!spec::FirstLayerOf(job.model, form)) continue;
    cost.layer_saved_bytes[i] = spec::SumBytes(
        spec::LayerSavedTensors(job.model, job.training, parallel, form, cost.shape));
    cost.layer_recomputed_bytes[i] = spec::SumBytes(
        spec::LayerRecomputedTensors(job.model, job.training, parallel, form, cost.shape));
    cost.layer_weight_operand_bytes[i] =
        spec::LayerWeightOperandBytes(job.model, job.training, parallel, form, cost.shape);
  }
  cost.embedding_saved_bytes = spec::SumBytes(spec::EmbeddingSavedTensors(cost.shape));
  cost.head_saved_bytes =
      spec::SumBytes(spec::HeadSavedTensors(job.model, job.training, parallel, cost.shape));
  cost.workspace_bytes = WorkspaceBytes(job.model, job.training, parallel, cost.shape);
  cost.transfer_bytes =
      static_cast<double>(spec::PipelineTransferElements(cost.shape) * device.element_bytes);
  return cost;
}

int64_t FlatElements(const std::vector<spec::ParameterSpec>& parameters,
                     const spec::ParallelSpec& parallel) {
  return spec::MakeFlatLayout(parameters, parallel).num_elements;
}

// Elements of the parameters that `counts` picks.
template <typename Predicate>
int64_t ElementsOf(const std::vector<spec::ParameterSpec>& parameters,
                   const spec::ParallelSpec& parallel, Predicate counts) {
  int64_t elements = 0;
  for (const spec::ParameterSpec& parameter : parameters) {
    if (!counts(parameter)) continue;
    elements += spec::SliceOf(parameter, parallel.tensor_parallel_size, 0).num_elements;
  }
  return elements;
}

PartParameters CountPart(const std::vector<spec::ParameterSpec>& parameters,
                         const spec::ParallelSpec& parallel) {
  std::vector<spec::ParameterSpec> experts, others;
  for (const spec::ParameterSpec& parameter : parameters) {
    (parameter.is_expert ? experts : others).push_back(parameter);
  }
  PartParameters part;
  part.expert_elements = FlatElements(experts, parallel);
  part.elements = FlatElements(others, parallel) + part.expert_elements;
  part.tokenwise = ElementsOf(
      others, parallel, [](const auto& parameter) { return parameter.sequence_parallel_gradient; });
  part.kv_replicated = ElementsOf(others, parallel, [&](const auto& parameter) {
    return parameter.shard.dim >= 0 && parameter.shard.num_shards < parallel.tensor_parallel_size;
  });
  return part;
}

// Experts are alike: lists of parameters hold one on each expert rank, and its router row.
spec::ModelSpec WithOneExpertARank(spec::ModelSpec model, const spec::ParallelSpec& parallel) {
  if (model.moe) model.moe->num_experts = parallel.expert_parallel_size;
  return model;
}

// Counts of a part with `num_layers` layers of experts, from those with one expert on each rank.
void CountAllExperts(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
                     int num_layers, PartParameters& part) {
  if (!model.moe || num_layers == 0) return;
  const int64_t num_local = model.moe->num_experts / parallel.expert_parallel_size;
  part.elements += (num_local - 1) * part.expert_elements;
  part.expert_elements *= num_local;
  const int64_t router_elements =
      num_layers * model.hidden_size * (model.moe->num_experts - parallel.expert_parallel_size);
  part.elements += router_elements;
  if (parallel.sequence_parallel) part.tokenwise += router_elements;
}

ParameterCounts MakeParameterCounts(const spec::ModelSpec& whole,
                                    const spec::ParallelSpec& layout) {
  spec::ParallelSpec parallel = layout;
  parallel.data_parallel_size = 1;  // no padding of buckets: alignment alone
  parallel.context_parallel_size = 1;
  const spec::ModelSpec model = WithOneExpertARank(whole, parallel);
  ParameterCounts counts;
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) {
    const spec::LayerForm form = spec::FormAt(i);
    const std::optional<int> layer = spec::FirstLayerOf(model, form);
    if (!layer) continue;
    counts.layers[i] = CountPart(
        spec::StageParameters(model, parallel, {.first_layer = *layer, .num_layers = 1}), parallel);
    CountAllExperts(whole, parallel, form.has_experts ? 1 : 0, counts.layers[i]);
  }
  counts.embedding =
      CountPart(spec::StageParameters(model, parallel, {.has_embedding = true}), parallel);
  auto head = spec::StageParameters(model, parallel, {.index = 1, .has_head = true});
  const auto is_tied_copy = [](const auto& parameter) { return parameter.tied_copy; };
  if (parallel.pipeline_parallel_size == 1) std::erase_if(head, is_tied_copy);
  counts.head = CountPart(head, parallel);
  const bool has_expert_layers = spec::MultiTokenLayerForm(whole).has_experts;
  CountAllExperts(whole, parallel, has_expert_layers ? whole.num_multi_token_layers : 0,
                  counts.head);
  counts.tied_embedding = ElementsOf(head, parallel, is_tied_copy);
  return counts;
}

}  // namespace

JobCosts::JobCosts(Job job)
    : job_(std::move(job)),
      device_(
          MakeRankDevice(job_.cluster, job_.training.precision, job_.num_devices, job_.runtime)),
      network_(MakeNetwork(job_.cluster, job_.num_devices)) {}

const MicrobatchCost& JobCosts::MicrobatchOf(const spec::ParallelSpec& parallel,
                                             spec::Recompute recompute) {
  const auto [entry, is_new] = microbatches_.try_emplace(MicrobatchKey(parallel, recompute));
  if (is_new) {
    spec::ParallelSpec alike = parallel;
    alike.recompute = recompute;
    alike.recomputed_layers_per_virtual_stage.clear();
    entry->second = MakeMicrobatchCost(job_, device_, network_, alike);
  }
  return entry->second;
}

const ParameterCounts& JobCosts::ParametersOf(const spec::ParallelSpec& parallel) {
  const auto [entry, is_new] = parameters_.try_emplace(ParametersKey(parallel));
  if (is_new) entry->second = MakeParameterCounts(job_.model, parallel);
  return entry->second;
}

}  // namespace tessera::cost_model
