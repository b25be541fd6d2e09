#include "cost_model/spec/workspace.h"

#include <algorithm>

namespace tessera::spec {
namespace {

constexpr int64_t kLossValuesBytes = 4 * 4;  // of a token: maximum, sum, target's logit, loss

}  // namespace

int64_t BackendWorkspaceBytes(const ClusterSpec& cluster) {
  return cluster.shared_compute_units > 0 ? 0 : kGpuWorkspaceBytes;
}

int64_t PassWorkspace::Most(bool has_layers, bool has_embedding, bool has_head) const {
  return std::max({has_layers ? layer_bytes : 0, has_embedding ? embedding_bytes : 0,
                   has_head ? head_bytes : 0});
}

PassWorkspace PassWorkspaceOf(const ModelSpec& model, const TrainingSpec& training,
                              const LocalShape& shape) {
  const int64_t element_bytes = base::SizeBytes(TypesOf(training.precision).activation);
  const bool is_gated = model.activation == ActivationKind::kSwiGlu;
  const int64_t t = shape.tokens;
  const int64_t gradient = shape.local_tokens * shape.hidden;
  const int64_t gathered = shape.sequence_parallel ? t * shape.hidden : 0;
  const int64_t partial_sums = t * shape.hidden + (shape.sequence_parallel ? gradient : 0);
  const int64_t first_mlp_width = is_gated ? 2 * shape.ffn : shape.ffn;
  const int64_t widest =
      std::max({gathered + t * (is_gated ? 3 * shape.ffn : shape.ffn),
                t * first_mlp_width + partial_sums, gathered + t * shape.attention_width,
                t * (shape.attention_width + shape.qkv_width), t * shape.qkv_width + partial_sums});
  const int64_t end = std::max(partial_sums, gradient + gathered);
  return {.layer_bytes = (gradient + widest) * element_bytes,
          .embedding_bytes = end * element_bytes,
          .head_bytes = std::max(end * element_bytes, t * kLossValuesBytes),
          .transfer_bytes = PipelineTransferElements(shape) * element_bytes};
}

bool HoldsTransferInBackward(const ParallelSpec& parallel, int64_t num_microbatches, int stage) {
  if (parallel.schedule != ScheduleKind::kInterleaved) return false;
  const int num_stages = parallel.pipeline_parallel_size;
  if (num_microbatches > num_stages) return true;
  return stage >= num_stages / 2 && stage < num_stages - 1;
}

}  // namespace tessera::spec
