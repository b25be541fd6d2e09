#include "cost_model/spec/workspace.h"

#include <algorithm>

#include "cost_model/spec/context_workspace.h"
#include "cost_model/spec/expert_workspace.h"

namespace tessera::spec {
namespace {

constexpr int64_t kLossValuesBytes = 4 * 4;  // of a token: maximum, sum, target's logit, loss

}  // namespace

int64_t BackendWorkspaceBytes(const ClusterSpec& cluster) {
  return cluster.shared_compute_units > 0 ? 0 : kGpuWorkspaceBytes;
}

PassWorkspace::Bytes PassWorkspace::Most(const ModelSpec& model, const VirtualStage& stage) const {
  Bytes most;
  const auto add = [&](bool is_there, const Bytes& part) {
    if (!is_there) return;
    most.forward = std::max(most.forward, part.forward);
    most.backward = std::max(most.backward, part.backward);
  };
  const PerForm<int> counts = CountForms(model, stage);
  for (size_t i = 0; i < kNumLayerForms; ++i) {
    add(counts[i] > 0, FormAt(i).has_experts ? expert_layer : layer);
  }
  add(stage.has_embedding, embedding);
  add(stage.has_head, head);
  return most;
}

int64_t ChunkWorkspaceBytes(const ModelSpec& model, const PassWorkspace& workspace,
                            const TransferBuffers& transfers, const VirtualStage& chunk) {
  const PassWorkspace::Bytes pass = workspace.Most(model, chunk);
  const int64_t forward = transfers.beside_forward.at(chunk.chunk) * workspace.message_bytes;
  const int64_t backward = transfers.beside_backward.at(chunk.chunk) * workspace.message_bytes;
  return std::max({pass.forward + forward, pass.backward + backward,
                   transfers.in_exchange * workspace.message_bytes});
}

PassWorkspace PassWorkspaceOf(const ModelSpec& model, const TrainingSpec& training,
                              const ParallelSpec& parallel, const LocalShape& shape) {
  const int64_t element_bytes = base::SizeBytes(TypesOf(training.precision).activation);
  const bool is_gated = model.activation == ActivationKind::kSwiGlu;
  const int64_t t = shape.tokens;
  const int64_t gradient = shape.local_tokens * shape.hidden;
  const int64_t gathered = shape.sequence_parallel ? t * shape.hidden : 0;
  const int64_t partial_sums = t * shape.hidden + (shape.sequence_parallel ? gradient : 0);
  const int64_t first_mlp_width = is_gated ? 2 * shape.ffn : shape.ffn;
  const bool puts_off = parallel.schedule == ScheduleKind::kZeroBubbleH1;
  const int64_t operand = puts_off ? gathered : 0;
  const int64_t input = parallel.overlap_tp_comm ? gathered : 0;
  // Where it is gathered the gathered form is the operand.
  const int64_t branch = shape.drops_hidden ? gradient : 0;
  const int64_t branch_operand = puts_off && !shape.sequence_parallel ? branch : 0;
  const int64_t left_by_mlp =
      puts_off ? t * first_mlp_width + (shape.sequence_parallel ? 2 * gathered : gradient) : 0;
  const int64_t mlp =
      std::max(branch + gathered + t * (is_gated ? 3 * shape.ffn : shape.ffn),
               branch_operand + operand + input + t * first_mlp_width + partial_sums);
  const CoreWorkspace core = CoreWorkspaceOf(parallel, shape);
  const int64_t core_bytes = std::max(
      core.backward_bytes, parallel.recompute == Recompute::kSelective ? core.recomputed_bytes : 0);
  const int64_t kept = branch_operand + operand;
  const int64_t attention_bytes =
      std::max({(branch + gathered + t * shape.attention_width) * element_bytes,
                kept * element_bytes + core_bytes,
                (kept + input + t * shape.qkv_width + partial_sums) * element_bytes});
  const int64_t recomputed_bytes = parallel.recompute == Recompute::kFull ? core.forward_bytes : 0;
  const auto bytes = [&](int64_t forward, int64_t backward) {
    return PassWorkspace::Bytes{forward * element_bytes, backward * element_bytes};
  };
  PassWorkspace workspace{
      .layer = bytes(gradient, gradient),
      .embedding = bytes(partial_sums, gradient + gathered),
      .head = bytes(gathered, std::max(input + partial_sums, gradient + gathered)),
      .message_bytes = SentTransferElements(parallel, shape) * element_bytes};
  workspace.layer.forward += std::max(partial_sums * element_bytes, core.forward_bytes);
  workspace.layer.backward += std::max(
      {mlp * element_bytes, recomputed_bytes, left_by_mlp * element_bytes + attention_bytes});
  if (model.moe) {
    const ExpertWorkspace experts = ExpertWorkspaceOf(model, training, parallel, shape);
    workspace.expert_layer = bytes(gradient, gradient);
    workspace.expert_layer.forward +=
        std::max({partial_sums * element_bytes, core.forward_bytes, experts.forward_bytes});
    workspace.expert_layer.backward +=
        std::max({experts.backward_bytes, recomputed_bytes, experts.left_bytes + attention_bytes});
  }
  workspace.head.forward = std::max(workspace.head.forward, t * kLossValuesBytes);
  return workspace;
}

}  // namespace tessera::spec
