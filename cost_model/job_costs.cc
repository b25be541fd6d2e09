#include "cost_model/job_costs.h"

#include <utility>

#include "cost_model/memory.h"
#include "cost_model/spec/activation_peak.h"
#include "cost_model/spec/kept_tensors.h"

namespace tessera::cost_model {
namespace {

// Packs what BlockCosts depend on. FindViolations keeps sizes below 2^31.
LayoutKey BlocksKey(const spec::ParallelSpec& parallel, spec::Recompute recompute) {
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
  key.AddChoice(parallel.overlap_tp_comm);
  key.AddChoice(parallel.schedule == spec::ScheduleKind::kZeroBubbleH1);
  // In the usual rank order no axis that is missing here lies inside the groups of a layer.
  const static spec::ParallelSpec kUsual;
  key.AddSize(parallel.rank_order == kUsual.rank_order ? 0 : parallel.data_parallel_size);
  return key;
}

// What MicrobatchCost depends on.
LayoutKey MicrobatchKey(const spec::ParallelSpec& parallel, spec::Recompute recompute) {
  LayoutKey key = BlocksKey(parallel, recompute);
  key.AddChoice(parallel.scatter_gather_transfers);
  key.AddChoice(parallel.pipeline_parallel_size > 1);
  return key;
}

// `parallel` with every layer recomputed in one way.
spec::ParallelSpec Alike(const spec::ParallelSpec& parallel, spec::Recompute recompute) {
  spec::ParallelSpec alike = parallel;
  alike.recompute = recompute;
  alike.recomputed_layers_per_virtual_stage.clear();
  return alike;
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

LayoutKey StateKey(const spec::ParallelSpec& parallel, const RankLayers& layers, Padding padding) {
  LayoutKey key;
  key.AddSize(parallel.tensor_parallel_size);
  key.AddSize(parallel.expert_parallel_size);
  key.AddSize(parallel.expert_tensor_parallel_size);
  key.AddSize(spec::GradientGroupSize(parallel));
  key.AddSize(layers.num_dense);
  key.AddSize(layers.num_with_experts);
  key.AddChoice(layers.has_embedding);
  key.AddChoice(layers.has_head);
  key.AddChoice(parallel.pipeline_parallel_size > 1);
  key.AddChoice(static_cast<uint64_t>(padding));
  // How parts of the model are buckets of their own, and which of them are sharded.
  const bool by_part = spec::ReducesEachMicrobatch(parallel);
  key.AddChoice(by_part);
  key.AddChoice(by_part && spec::IsSharded(/*is_expert=*/false, parallel));
  key.AddChoice(by_part && spec::IsSharded(/*is_expert=*/true, parallel));
  return key;
}

MicrobatchCost MakeMicrobatchCost(const Job& job, const RankDevice& device,
                                  const spec::ParallelSpec& parallel) {
  MicrobatchCost cost;
  cost.shape = spec::MakeLocalShape(job.model, job.training, parallel);
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) {
    const spec::LayerForm form = spec::FormAt(i);
    if (!spec::FirstLayerOf(job.model, form)) continue;
    cost.layers[i] =
        spec::LayerBytesOf(job.model, job.training, parallel, form, cost.shape, job.runtime);
  }
  cost.stage_output_bytes =
      job.runtime.keeps_stage_outputs
          ? spec::PipelineTransferElements(cost.shape) *
                base::SizeBytes(spec::TypesOf(job.training.precision).activation)
          : 0;
  cost.embedding_saved_bytes = spec::SumBytes(spec::EmbeddingSavedTensors(cost.shape));
  cost.head_saved_bytes = spec::SumBytes(
      spec::HeadKeptTensors(job.model, job.training, parallel, cost.shape, job.runtime));
  cost.head_peak_bytes =
      spec::HeadPeakBytes(job.model, job.training, parallel, cost.shape, job.runtime);
  cost.workspace = spec::PassWorkspaceOf(job.model, job.training, parallel, cost.shape);
  cost.transfer_bytes =
      static_cast<double>(spec::PipelineTransferElements(cost.shape) * device.element_bytes);
  return cost;
}

// Programs of autograd keep masks of what the training drops. Ours draws them again.
Job WithMasksKept(Job job) {
  spec::RuntimeSpec& runtime = job.runtime;
  runtime.hidden_dropout |= runtime.autograd && job.training.dropout.hidden > 0;
  runtime.attention_dropout |= runtime.autograd && job.training.dropout.attention > 0;
  return job;
}

}  // namespace

JobCosts::JobCosts(Job job)
    : job_(WithMasksKept(std::move(job))),
      device_(
          MakeRankDevice(job_.cluster, job_.training.precision, job_.num_devices, job_.runtime)),
      network_(MakeNetwork(job_.cluster, job_.num_devices)) {}

const BlockCosts& JobCosts::BlocksOf(const spec::ParallelSpec& parallel,
                                     spec::Recompute recompute) {
  const auto [entry, is_new] = blocks_.try_emplace(BlocksKey(parallel, recompute));
  if (is_new) {
    entry->second = MakeBlockCosts(job_.model, job_.training, Alike(parallel, recompute), device_,
                                   network_, job_.convention);
  }
  return entry->second;
}

const MicrobatchCost& JobCosts::MicrobatchOf(const spec::ParallelSpec& parallel,
                                             spec::Recompute recompute) {
  const auto [entry, is_new] = microbatches_.try_emplace(MicrobatchKey(parallel, recompute));
  if (is_new) {
    entry->second = MakeMicrobatchCost(job_, device_, Alike(parallel, recompute));
  }
  return entry->second;
}

const std::vector<spec::TransferBuffers>& JobCosts::TransfersOf(const spec::ParallelSpec& parallel,
                                                                int64_t num_microbatches) {
  LayoutKey key;
  key.AddSize(parallel.pipeline_parallel_size);
  key.AddSize(parallel.virtual_pipeline_size);
  key.AddSize(parallel.microbatch_group_size);
  key.AddSize(spec::MicrobatchesUpToPeak(parallel, num_microbatches));
  key.AddSize(spec::TransferUnits(parallel));
  key.AddChoice(static_cast<uint64_t>(parallel.schedule));
  key.AddChoice(parallel.overlap_pp_comm);
  const auto [entry, is_new] = transfers_.try_emplace(key);
  if (is_new) entry->second = spec::TransferBuffersOf(parallel, num_microbatches);
  return entry->second;
}

const ParameterCounts& JobCosts::ParametersOf(const spec::ParallelSpec& parallel) {
  const auto [entry, is_new] = parameters_.try_emplace(ParametersKey(parallel));
  if (is_new) entry->second = MakeParameterCounts(job_.model, parallel);
  return entry->second;
}

const ParameterItems& JobCosts::ItemsOf(const spec::ParallelSpec& parallel) {
  const auto [entry, is_new] = items_.try_emplace(ParametersKey(parallel));
  if (is_new) entry->second = MakeParameterItems(job_.model, job_.training, parallel);
  return entry->second;
}

const spec::StateElements& JobCosts::StateOf(const spec::ParallelSpec& parallel,
                                             const RankLayers& layers, Padding padding) {
  const auto [entry, is_new] = states_.try_emplace(StateKey(parallel, layers, padding));
  if (is_new) entry->second = MakeStateElements(ItemsOf(parallel), layers, parallel, padding);
  return entry->second;
}

}  // namespace tessera::cost_model
