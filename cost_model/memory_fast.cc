#include "cost_model/memory_fast.h"

#include <algorithm>

#include "cost_model/base/math.h"
#include "cost_model/memory.h"
#include "cost_model/stage_memory.h"

namespace tessera::cost_model {
namespace {

// Bytes that the layers of stage `stage` keep for backward passes at most: `pass_bytes` of a
// chunk's forward pass, `operand_bytes` for its weight pass.
int64_t LayersSavedBytesFast(const spec::ParallelSpec& parallel, int64_t num_microbatches,
                             int stage, int64_t pass_bytes, int64_t operand_bytes) {
  const int64_t passes = MaxPassesInFlight(parallel, num_microbatches, stage);
  if (parallel.schedule != spec::ScheduleKind::kZeroBubbleH1) return passes * pass_bytes;
  // As a forward pass is done. A short run is over before weight passes pile up.
  const bool is_short = num_microbatches < parallel.pipeline_parallel_size;
  return passes * pass_bytes + (is_short ? 0 : stage * operand_bytes);
}

// Most bytes of activations on a stage.
int64_t ActivationBytesFast(JobCosts& costs, const spec::ParallelSpec& parallel,
                            const MicrobatchCost& microbatch, const StepParts& parts, int stage) {
  const int num_stages = parallel.pipeline_parallel_size;
  int64_t pass_bytes = 0;  // of the chunk that holds most
  int64_t operand_bytes = 0;
  int64_t running_bytes = 0;
  for (size_t i = stage; i < parts.forms.size(); i += num_stages) {
    int64_t chunk_bytes = 0;
    operand_bytes = 0;  // one chunk: the schedules with weight passes have no more
    const auto add = [&](const spec::PerForm<int>& num_layers, const MicrobatchCost& cost) {
      for (size_t form = 0; form < spec::kNumLayerForms; ++form) {
        if (num_layers[form] == 0) continue;
        chunk_bytes += num_layers[form] * cost.layer_saved_bytes[form];
        operand_bytes += num_layers[form] * cost.layer_weight_operand_bytes[form];
        running_bytes = std::max(running_bytes, cost.layer_running_bytes[form]);
      }
    };
    if (parts.recomputed.empty()) {
      add(parts.forms[i], microbatch);
    } else {
      add(parts.recomputed[i], microbatch);
      add(KeptForms(parts, i), costs.MicrobatchOf(parallel, spec::Recompute::kNone));
    }
    pass_bytes = std::max(pass_bytes, chunk_bytes);
  }
  const bool has_head = stage == num_stages - 1;
  if (costs.job().runtime.keeps_stage_outputs && !has_head) {
    pass_bytes += static_cast<int64_t>(microbatch.transfer_bytes);
  }
  const int64_t passes = MaxPassesInFlight(parallel, parts.num_microbatches, stage);
  int64_t bytes =
      LayersSavedBytesFast(parallel, parts.num_microbatches, stage, pass_bytes, operand_bytes);
  if (stage == 0) {
    bytes +=
        base::CeilDiv(passes, parallel.virtual_pipeline_size) * microbatch.embedding_saved_bytes;
  }
  // The last stage runs backward at once what it has run forward: one head at a time.
  int64_t head_bytes = has_head ? microbatch.head_peak_bytes : 0;
  if (parallel.schedule == spec::ScheduleKind::kGPipe && has_head) {
    head_bytes += (passes - 1) * microbatch.head_saved_bytes;
  }
  return bytes + std::max(head_bytes, running_bytes);
}

// Of pipeline stage `stage`, whose parameters are `parameters`.
spec::StateElements StateElementsOf(const ParameterCounts& counts,
                                    const StageParameterCounts& parameters, bool has_embedding,
                                    bool has_head) {
  spec::StateElements elements{.elements = parameters.elements,
                               .expert_elements = parameters.expert_elements};
  for (const PartParameters& layer : counts.layers) {
    elements.largest_layer = std::max(elements.largest_layer, layer.elements);
  }
  elements.largest_part = elements.largest_layer;
  if (has_embedding) {
    elements.largest_part = std::max(elements.largest_part, counts.embedding.elements);
  }
  if (has_head) elements.largest_part = std::max(elements.largest_part, counts.head.elements);
  return elements;
}

// Bytes on a rank of a stage: StageMemory without terms.
spec::StageMemory StageMemoryFast(JobCosts& costs, const spec::ParallelSpec& parallel,
                                  const StepParts& parts, int stage) {
  const Job& job = costs.job();
  const MicrobatchCost& microbatch = costs.MicrobatchOf(parallel);
  const ParameterCounts& counts = costs.ParametersOf(parallel);
  const bool has_embedding = stage == 0;
  const bool has_head = stage == parallel.pipeline_parallel_size - 1;
  const StageParameterCounts parameters =
      CountParameters(counts, PipelineStageForms(parts, parallel, stage), has_embedding, has_head);
  StageParts numbers;
  numbers.state = spec::StateBytesOf(StateElementsOf(counts, parameters, has_embedding, has_head),
                                     job.training, parallel);
  numbers.activations_bytes = ActivationBytesFast(costs, parallel, microbatch, parts, stage);
  numbers.end_elements =
      (has_embedding ? counts.embedding.elements : 0) + (has_head ? counts.head.elements : 0);
  numbers.placeholder_bytes = microbatch.placeholder_bytes;
  numbers.workspace_bytes = microbatch.workspace_bytes;
  return AssembleStage(job.cluster, job.training, parallel, job.runtime, numbers);
}

}  // namespace

FastMemory StepMemoryFast(JobCosts& costs, const spec::ParallelSpec& parallel,
                          const StepParts& parts) {
  const Job& job = costs.job();
  const bool is_pool = job.cluster.shared_compute_units > 0;
  FastMemory memory;
  double sum_bytes = 0;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    const spec::StageMemory bytes = StageMemoryFast(costs, parallel, parts, stage);
    const auto total_bytes = static_cast<double>(bytes.Total());
    memory.peak_bytes = std::max(memory.peak_bytes, total_bytes);
    memory.needed_bytes = std::max(memory.needed_bytes, NeededBytes(bytes, job.runtime));
    sum_bytes += total_bytes;
  }
  if (is_pool) {
    memory.needed_bytes = sum_bytes * (job.num_devices / parallel.pipeline_parallel_size);
  }
  return memory;
}

}  // namespace tessera::cost_model
