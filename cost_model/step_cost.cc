#include "cost_model/step_cost.h"

#include <algorithm>

#include "cost_model/base/math.h"
#include "cost_model/memory.h"
#include "cost_model/spec/flat_layout.h"
#include "cost_model/spec/throughput.h"
#include "cost_model/step_account.h"

namespace tessera::cost_model {
namespace {

// Forward work that a step runs a second time, on all devices. [FLOPs]
double RecomputedFlops(const StepParts& parts, const spec::ParallelSpec& parallel) {
  double flops = 0;
  for (const BlockCost& cost : parts.costs) flops += cost.recompute_flops;
  return flops * static_cast<double>(parts.num_microbatches) * spec::GradientGroupSize(parallel) *
         parallel.tensor_parallel_size;
}

// Bytes that the layers of stage `stage` keep for backward passes at most: `pass_bytes` of a
// chunk's forward pass, `operand_bytes` for its weight pass.
int64_t LayersSavedBytesFast(const spec::ParallelSpec& parallel, int64_t num_microbatches,
                             int stage, int64_t pass_bytes, int64_t operand_bytes) {
  const int64_t passes = MaxPassesInFlight(parallel, num_microbatches, stage);
  if (parallel.schedule != spec::ScheduleKind::kZeroBubbleH1) return passes * pass_bytes;
  // With a forward pass done, or with the input pass that follows it done. In a short run the one
  // is over before weight passes pile up.
  const bool is_short = num_microbatches < parallel.pipeline_parallel_size;
  const int64_t put_off = std::min<int64_t>(num_microbatches, stage + 1);
  return std::max(passes * pass_bytes + (is_short ? 0 : stage * operand_bytes),
                  (is_short ? 0 : (passes - 1) * pass_bytes) + put_off * operand_bytes);
}

// Of pipeline stage `stage`, whose parameters are `parameters`.
spec::StateElements StateElementsOf(const ParameterCounts& counts,
                                    const StageParameterCounts& parameters, const StepParts& parts,
                                    int stage) {
  spec::StateElements elements{.elements = parameters.elements,
                               .expert_elements = parameters.expert_elements};
  const auto num_stages = static_cast<int>(parts.updates.size());
  for (size_t form = 0; form < spec::kNumLayerForms; ++form) {
    elements.largest_layer = std::max(elements.largest_layer, counts.layers[form].elements);
  }
  elements.largest_part = elements.largest_layer;
  if (stage == 0) {
    elements.largest_part = std::max(elements.largest_part, counts.embedding.elements);
  }
  if (stage == num_stages - 1) {
    elements.largest_part = std::max(elements.largest_part, counts.head.elements);
  }
  return elements;
}

// Bytes on a rank of pipeline stage `stage`, in closed form: no padding of gradient buckets.
double StageBytesFast(JobCosts& costs, const spec::ParallelSpec& parallel, const StepParts& parts,
                      int stage) {
  const MicrobatchCost& microbatch = costs.MicrobatchOf(parallel);
  const int num_stages = parallel.pipeline_parallel_size;
  // Of the chunk that holds most.
  int64_t layers_saved_bytes = 0;
  int64_t operand_bytes = 0;
  int64_t layer_recomputed_bytes = 0;
  for (size_t i = stage; i < parts.forms.size(); i += num_stages) {
    int64_t saved_bytes = 0;
    operand_bytes = 0;  // one chunk: the schedules with weight passes have no more
    const auto add = [&](const spec::PerForm<int>& num_layers, const MicrobatchCost& cost) {
      for (size_t form = 0; form < spec::kNumLayerForms; ++form) {
        if (num_layers[form] == 0) continue;
        saved_bytes += num_layers[form] * cost.layer_saved_bytes[form];
        operand_bytes += num_layers[form] * cost.layer_weight_operand_bytes[form];
        layer_recomputed_bytes =
            std::max(layer_recomputed_bytes, cost.layer_recomputed_bytes[form]);
      }
    };
    if (parts.recomputed.empty()) {
      add(parts.forms[i], microbatch);
    } else {
      add(parts.recomputed[i], microbatch);
      add(KeptForms(parts, i), costs.MicrobatchOf(parallel, spec::Recompute::kNone));
    }
    layers_saved_bytes = std::max(layers_saved_bytes, saved_bytes);
  }
  const bool has_embedding = stage == 0;
  const bool has_head = stage == num_stages - 1;
  const StageParameterCounts parameters =
      CountParameters(costs.ParametersOf(parallel), PipelineStageForms(parts, parallel, stage),
                      has_embedding, has_head);
  const spec::StateBytes state =
      spec::StateBytesOf(StateElementsOf(costs.ParametersOf(parallel), parameters, parts, stage),
                         costs.job().training, parallel);
  int64_t bytes =
      state.weights_bytes + state.gradients_bytes + state.optimizer_bytes + state.gathered_bytes;

  const int64_t passes = MaxPassesInFlight(parallel, parts.num_microbatches, stage);
  bytes += LayersSavedBytesFast(parallel, parts.num_microbatches, stage, layers_saved_bytes,
                                operand_bytes);
  if (has_embedding) {
    bytes +=
        base::CeilDiv(passes, parallel.virtual_pipeline_size) * microbatch.embedding_saved_bytes;
  }
  // The last stage runs backward at once what it has run forward: one head at a time.
  const int64_t heads = parallel.schedule == spec::ScheduleKind::kGPipe ? passes : 1;
  const int64_t head_bytes = has_head ? heads * microbatch.head_saved_bytes : 0;
  bytes += std::max(head_bytes, layer_recomputed_bytes);
  bytes += microbatch.workspace_bytes + costs.job().cluster.device.reserved_memory_bytes;
  return static_cast<double>(bytes);
}

}  // namespace

StepPrice PriceStep(JobCosts& costs, const spec::ParallelSpec& parallel) {
  const Job& job = costs.job();
  const StepParts parts = MakeStepParts(costs, parallel);
  const PipelineRun run = RunPipeline(costs, parallel, parts);
  StepPrice price;
  price.report.time = AccountStep(costs, parallel, parts, run);
  price.report.step_time_s = price.report.time.Total();
  price.report.hardware_flops = spec::ModelFlopsPerStep(job.model, job.training, job.convention) +
                                RecomputedFlops(parts, parallel);
  spec::FillThroughput(job.model, job.training, job.cluster, job.num_devices, job.convention,
                       price.report);
  price.report.stages = MemoryOf(job.model, job.cluster, job.training, parallel, parts.stages);
  price.report.peak_bytes = PeakBytes(price.report.stages);
  if (auto violation = FindMemoryViolation(price.report.stages, job.cluster, parallel)) {
    price.violations.push_back(*std::move(violation));
  }
  return price;
}

FastPrice PriceStepFast(JobCosts& costs, const spec::ParallelSpec& parallel) {
  const Job& job = costs.job();
  const StepParts parts = MakeStepParts(costs, parallel);
  FastPrice price;
  double sum_bytes = 0;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    const double stage_bytes = StageBytesFast(costs, parallel, parts, stage);
    price.peak_bytes = std::max(price.peak_bytes, stage_bytes);
    sum_bytes += stage_bytes;
  }
  price.needed_bytes = kAllocatorSlack * price.peak_bytes;
  if (job.cluster.shared_compute_units > 0) {
    price.needed_bytes = sum_bytes * (job.num_devices / parallel.pipeline_parallel_size);
  }
  price.available_bytes = static_cast<double>(job.cluster.device.memory_bytes);
  const PipelineRun run = RunPipelineFast(costs, parallel, parts);
  price.step_time_s = AccountStep(costs, parallel, parts, run).Total();
  return price;
}

}  // namespace tessera::cost_model
