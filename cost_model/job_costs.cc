#include "cost_model/job_costs.h"

#include <utility>

#include "cost_model/memory.h"
#include "cost_model/spec/flat_layout.h"

namespace tessera::cost_model {
namespace {

// Packs what MicrobatchCost depends on. FindViolations keeps micro-batch sizes below 2^31.
uint64_t MicrobatchKey(const spec::ParallelSpec& parallel) {
  uint64_t key = static_cast<uint64_t>(parallel.micro_batch_size);
  key = key << 24 | static_cast<uint64_t>(parallel.tensor_parallel_size);
  key = key << 1 | static_cast<uint64_t>(parallel.sequence_parallel);
  key = key << 2 | static_cast<uint64_t>(parallel.recompute);
  key = key << 1 | static_cast<uint64_t>(parallel.attention);
  key = key << 1 | static_cast<uint64_t>(parallel.schedule == spec::ScheduleKind::kInterleaved);
  return key;
}

uint64_t ParametersKey(const spec::ParallelSpec& parallel) {
  return static_cast<uint64_t>(parallel.tensor_parallel_size) << 2 |
         static_cast<uint64_t>(parallel.sequence_parallel) << 1 |
         static_cast<uint64_t>(parallel.pipeline_parallel_size > 1);
}

MicrobatchCost MakeMicrobatchCost(const Job& job, const RankDevice& device, const Network& network,
                                  const spec::ParallelSpec& parallel) {
  MicrobatchCost cost;
  cost.shape = spec::MakeLocalShape(job.model, job.training, parallel);
  cost.blocks = MakeBlockCosts(job.model, job.training, parallel, device, network, job.convention);
  cost.layer_saved_bytes =
      spec::SumBytes(spec::LayerSavedTensors(job.model, job.training, parallel, cost.shape));
  cost.layer_recomputed_bytes =
      spec::SumBytes(spec::LayerRecomputedTensors(job.model, job.training, parallel, cost.shape));
  cost.embedding_saved_bytes = spec::SumBytes(spec::EmbeddingSavedTensors(cost.shape));
  cost.head_saved_bytes =
      spec::SumBytes(spec::HeadSavedTensors(job.model, job.training, cost.shape));
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

ParameterCounts MakeParameterCounts(const spec::ModelSpec& model,
                                    const spec::ParallelSpec& layout) {
  spec::ParallelSpec parallel = layout;
  parallel.data_parallel_size = 1;  // no padding of buckets: alignment alone
  parallel.context_parallel_size = 1;
  const auto is_tokenwise = [](const auto& parameter) {
    return parameter.sequence_parallel_gradient;
  };
  const auto is_tied_copy = [](const auto& parameter) { return parameter.tied_copy; };
  const auto is_kv_replicated = [&](const auto& parameter) {
    return parameter.shard.dim >= 0 && parameter.shard.num_shards < parallel.tensor_parallel_size;
  };
  const auto layer = spec::StageParameters(model, parallel, {.index = 1, .num_layers = 1});
  const auto embedding = spec::StageParameters(model, parallel, {.has_embedding = true});
  auto head = spec::StageParameters(model, parallel, {.index = 1, .has_head = true});
  if (parallel.pipeline_parallel_size == 1) std::erase_if(head, is_tied_copy);
  ParameterCounts counts;
  counts.layer = FlatElements(layer, parallel);
  counts.embedding = FlatElements(embedding, parallel);
  counts.head = FlatElements(head, parallel);
  counts.tied_embedding = ElementsOf(head, parallel, is_tied_copy);
  counts.layer_tokenwise = ElementsOf(layer, parallel, is_tokenwise);
  counts.embedding_tokenwise = ElementsOf(embedding, parallel, is_tokenwise);
  counts.head_tokenwise = ElementsOf(head, parallel, is_tokenwise);
  counts.layer_kv_replicated = ElementsOf(layer, parallel, is_kv_replicated);
  return counts;
}

}  // namespace

JobCosts::JobCosts(Job job)
    : job_(std::move(job)),
      device_(MakeRankDevice(job_.cluster, job_.training.precision, job_.num_devices)),
      network_(MakeNetwork(job_.cluster, job_.num_devices)) {}

const MicrobatchCost& JobCosts::MicrobatchOf(const spec::ParallelSpec& parallel) {
  const auto [entry, is_new] = microbatches_.try_emplace(MicrobatchKey(parallel));
  if (is_new) entry->second = MakeMicrobatchCost(job_, device_, network_, parallel);
  return entry->second;
}

const ParameterCounts& JobCosts::ParametersOf(const spec::ParallelSpec& parallel) {
  const auto [entry, is_new] = parameters_.try_emplace(ParametersKey(parallel));
  if (is_new) entry->second = MakeParameterCounts(job_.model, parallel);
  return entry->second;
}

}  // namespace tessera::cost_model
