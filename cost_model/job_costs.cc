#include "cost_model/job_costs.h"

#include <utility>

#include "cost_model/memory.h"
#include "cost_model/spec/flat_layout.h"
#include "cost_model/spec/kept_tensors.h"
#include "cost_model/stage_memory.h"

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
  key.AddChoice(parallel.pipeline_parallel_size > 1);
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
    const spec::LayerTensors layer =
        spec::LayerTensorsOf(job.model, job.training, parallel, form, cost.shape, job.runtime);
    cost.layer_saved_bytes[i] = spec::SumBytes(layer.kept);
    cost.layer_running_bytes[i] =
        spec::SumBytes(layer.restored) +
        spec::LayerWorkingBytes(job.model, job.training, parallel, form, cost.shape, job.runtime);
    cost.layer_weight_operand_bytes[i] =
        spec::LayerWeightOperandBytes(job.model, job.training, parallel, form, cost.shape);
  }
  cost.embedding_saved_bytes = spec::SumBytes(spec::EmbeddingSavedTensors(cost.shape));
  cost.head_saved_bytes = spec::SumBytes(
      spec::HeadKeptTensors(job.model, job.training, parallel, cost.shape, job.runtime));
  cost.head_peak_bytes =
      spec::HeadPeakBytes(job.model, job.training, parallel, cost.shape, job.runtime);
  cost.workspace_bytes = WorkspaceBytes(job.model, job.training, parallel, cost.shape);
  if (job.runtime.weight_gradient_placeholders) {
    // Those of the whole model: stages that lack a form are few, and small.
    cost.placeholder_bytes = PlaceholderBytes(job.model, job.training, parallel,
                                              {.index = 1, .num_layers = job.model.num_layers});
  }
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

// All experts that a rank holds, from the one of each layer that its list names.
void CountAllExperts(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
                     PartParameters& part) {
  if (!model.moe) return;
  const int64_t num_local = model.moe->num_experts / parallel.expert_parallel_size;
  part.elements += (num_local - 1) * part.expert_elements;
  part.expert_elements *= num_local;
}

ParameterCounts MakeParameterCounts(const spec::ModelSpec& model,
                                    const spec::ParallelSpec& layout) {
  spec::ParallelSpec parallel = layout;
  parallel.data_parallel_size = 1;  // no padding of buckets: alignment alone
  parallel.context_parallel_size = 1;
  const auto list = [&](const spec::VirtualStage& stage) {
    return spec::StageParameters(model, parallel, stage, /*expert_rank=*/0, /*max_experts=*/1);
  };
  ParameterCounts counts;
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) {
    const std::optional<int> layer = spec::FirstLayerOf(model, spec::FormAt(i));
    if (!layer) continue;
    counts.layers[i] = CountPart(list({.first_layer = *layer, .num_layers = 1}), parallel);
    CountAllExperts(model, parallel, counts.layers[i]);
  }
  counts.embedding = CountPart(list({.has_embedding = true}), parallel);
  auto head = list({.index = 1, .has_head = true});
  const auto is_tied_copy = [](const auto& parameter) { return parameter.tied_copy; };
  if (parallel.pipeline_parallel_size == 1) std::erase_if(head, is_tied_copy);
  counts.head = CountPart(head, parallel);
  CountAllExperts(model, parallel, counts.head);
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
