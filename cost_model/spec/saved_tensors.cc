// What forward passes keep for backward passes: declared in op_list.h.
#include <algorithm>
#include <string>
#include <utility>

#include "cost_model/spec/op_list.h"

namespace tessera::spec {
namespace {

constexpr int64_t kStatisticBytes = 4;  // norms, softmax, routers: fp32 in every precision
constexpr int64_t kTokenBytes = 4;      // token ids, labels and places of tokens: int32

// A norm keeps one (RMSNorm) or two (LayerNorm) numbers a token.
int64_t NormStatisticsBytes(const ModelSpec& model, const LocalShape& shape) {
  const int64_t per_token = model.norm == NormKind::kLayerNorm ? 2 : 1;
  return shape.local_tokens * per_token * kStatisticBytes;
}

bool IsContextKind(const ParallelSpec& parallel, ContextKind kind) {
  return parallel.context_parallel_size > 1 && parallel.context_kind == kind;
}

int64_t AttentionStatsBytes(const ParallelSpec& parallel, const LocalShape& shape,
                            int64_t element_bytes) {
  const int64_t rows = shape.batch * shape.heads * shape.sequence;
  if (parallel.attention == AttentionKind::kFlash) return rows * kStatisticBytes;
  int64_t probabilities = rows * shape.sequence;
  if (IsContextKind(parallel, ContextKind::kAllToAll)) {
    probabilities *= shape.context_parallel_size;  // whole sequences of fewer heads
  } else if (IsContextKind(parallel, ContextKind::kAllGather)) {
    // Either chunk of queries, half of them, with the keys up to its end.
    probabilities = probabilities * (2 * shape.context_parallel_size + 1) / 4;
  }
  return probabilities * element_bytes;
}

int64_t ActivationElementBytes(const TrainingSpec& training) {
  return base::SizeBytes(TypesOf(training.precision).activation);
}

void AddAttentionTensors(const ModelSpec& model, const LocalShape& shape, int64_t element_bytes,
                         std::vector<SavedTensor>& saved) {
  const auto add = [&](const char* name, int64_t rows, int64_t width) {
    saved.push_back({name, rows * width * element_bytes});
  };
  if (model.mla) {
    const MlaSpec& mla = *model.mla;
    if (mla.q_lora_rank > 0) {
      add("query_latent", shape.local_tokens, mla.q_lora_rank);
      saved.push_back({"query_latent_norm_statistics", shape.local_tokens * kStatisticBytes});
      add("query_latent_norm_output", shape.local_tokens, mla.q_lora_rank);
    }
    add("key_value_latent", shape.local_tokens, mla.kv_lora_rank + mla.qk_rope_head_dim);
    saved.push_back({"key_value_latent_norm_statistics", shape.local_tokens * kStatisticBytes});
    add("key_value_latent_norm_output", shape.local_tokens, mla.kv_lora_rank);
  } else if (model.qk_norm) {
    const int64_t heads = shape.heads + shape.kv_heads;
    add("queries_and_keys_before_norm", shape.tokens, heads * shape.head_dim);
    saved.push_back({"queries_and_keys_norm_statistics", shape.tokens * heads * kStatisticBytes});
  }
  add("qkv", shape.tokens, shape.qkv_width);
  add("attention_output", shape.tokens, shape.attention_width);
}

// An MLP, dense or a shared expert: what its activation reads and gives.
void AddActivationTensors(const ModelSpec& model, const std::string& prefix, int64_t rows,
                          int64_t ffn, int64_t element_bytes, std::vector<SavedTensor>& saved) {
  const bool gated = model.activation == ActivationKind::kSwiGlu;
  const int64_t bytes = rows * ffn * element_bytes;
  saved.push_back({prefix + "_pre_activation", gated ? 2 * bytes : bytes});
  saved.push_back({prefix + "_activation", bytes});
}

// Routed rows count in full: each comes from a token of some rank, however many ranks share the
// experts.
void AddExpertTensors(const ModelSpec& model, const LocalShape& shape, int64_t element_bytes,
                      std::vector<SavedTensor>& saved) {
  const MoeSpec& moe = *model.moe;
  const auto add = [&](const char* name, int64_t elements) {
    saved.push_back({name, elements * kStatisticBytes});
  };
  add("router_probabilities", shape.local_tokens * moe.num_experts);
  add("router_log_sum_exp", shape.local_tokens);
  add("router_choice", shape.local_tokens * moe.experts_per_token);
  add("router_weights", shape.local_tokens * moe.experts_per_token);
  if (moe.auxiliary_loss_coefficient > 0) add("expert_counts", shape.batch * moe.num_experts);
  saved.push_back({"routed_tokens", shape.expert_rows * shape.hidden * element_bytes});
  add("routed_weights", shape.expert_rows);
  AddActivationTensors(model, "expert", shape.expert_rows, shape.expert_ffn, element_bytes, saved);
  if (shape.shared_ffn > 0) {
    AddActivationTensors(model, "shared_expert", shape.tokens, shape.shared_ffn, element_bytes,
                         saved);
    // Two logits' probabilities, their log-sum-exp and the weight of each token.
    if (moe.shared_expert_gate) add("shared_expert_gate", shape.tokens * 4);
  }
}

// Everything but the layer's input.
std::vector<SavedTensor> InnerTensors(const ModelSpec& model, const TrainingSpec& training,
                                      const ParallelSpec& parallel, const LayerForm& form,
                                      const LocalShape& shape, bool with_attention_stats) {
  const int64_t element_bytes = ActivationElementBytes(training);
  const int64_t hidden_bytes = shape.local_tokens * shape.hidden * element_bytes;
  std::vector<SavedTensor> saved = {
      {"attention_norm_statistics", NormStatisticsBytes(model, shape)},
      {"attention_norm_output", hidden_bytes}};
  AddAttentionTensors(model, shape, element_bytes, saved);
  // Heads swapped for tokens: the softmax's gradient takes the output before it is swapped back,
  // the next product's that after it.
  if (IsContextKind(parallel, ContextKind::kAllToAll)) {
    saved.push_back(
        {"attention_output_exchanged", shape.tokens * shape.attention_width * element_bytes});
  }
  if (with_attention_stats) {
    saved.push_back({"attention_stats", AttentionStatsBytes(parallel, shape, element_bytes)});
  }
  saved.push_back({"mlp_input", hidden_bytes});
  saved.push_back({"mlp_norm_statistics", NormStatisticsBytes(model, shape)});
  saved.push_back({"mlp_norm_output", hidden_bytes});
  if (form.has_experts) {
    AddExpertTensors(model, shape, element_bytes, saved);
  } else {
    AddActivationTensors(model, "mlp", shape.tokens, shape.ffn, element_bytes, saved);
  }
  return saved;
}

}  // namespace

int64_t SumBytes(const std::vector<SavedTensor>& tensors) {
  int64_t sum_bytes = 0;
  for (const SavedTensor& tensor : tensors) sum_bytes += tensor.num_bytes;
  return sum_bytes;
}

std::vector<SavedTensor> LayerSavedTensors(const ModelSpec& model, const TrainingSpec& training,
                                           const ParallelSpec& parallel, const LayerForm& form,
                                           const LocalShape& shape) {
  std::vector<SavedTensor> saved = {
      {"input", shape.local_tokens * shape.hidden * ActivationElementBytes(training)}};
  if (parallel.recompute == Recompute::kFull) return saved;
  const bool with_stats = parallel.recompute == Recompute::kNone;
  for (SavedTensor& tensor : InnerTensors(model, training, parallel, form, shape, with_stats)) {
    saved.push_back(std::move(tensor));
  }
  return saved;
}

std::vector<SavedTensor> LayerRecomputedTensors(const ModelSpec& model,
                                                const TrainingSpec& training,
                                                const ParallelSpec& parallel, const LayerForm& form,
                                                const LocalShape& shape) {
  switch (parallel.recompute) {
    case Recompute::kNone:
      return {};
    case Recompute::kSelective:
      return {{"attention_stats",
               AttentionStatsBytes(parallel, shape, ActivationElementBytes(training))}};
    case Recompute::kFull:
      return InnerTensors(model, training, parallel, form, shape, /*with_attention_stats=*/true);
  }
  return {};
}

int64_t LayerWeightOperandBytes(const ModelSpec& model, const TrainingSpec& training,
                                const ParallelSpec& parallel, const LayerForm& form,
                                const LocalShape& shape) {
  std::vector<Op> ops;
  AppendLayerBackward(model, parallel, form, shape, ops);
  int64_t elements = 0;
  for (const Op& op : ops) {
    const auto& dims = op.record.dims;  // m, n, k: the same rows k for all experts together
    if (IsWeightGradient(op)) elements += (dims[0] + dims[1]) * dims[2];
  }
  return elements * ActivationElementBytes(training);
}

std::vector<SavedTensor> EmbeddingSavedTensors(const LocalShape& shape) {
  return {{"tokens", shape.tokens * kTokenBytes}};
}

std::vector<SavedTensor> DocumentSavedTensors(const ModelSpec& model, const LocalShape& shape,
                                              const VirtualStage& stage) {
  const bool has_layers = stage.num_layers > 0;
  const bool has_positions = (model.position == PositionKind::kRope && has_layers) ||
                             (model.position == PositionKind::kLearned && stage.has_embedding);
  if (!(shape.resets_attention && has_layers) && !(shape.resets_positions && has_positions)) {
    return {};
  }
  return {{"document_starts", shape.tokens * shape.context_parallel_size * kTokenBytes}};
}

std::vector<SavedTensor> HeadSavedTensors(const ModelSpec& model, const TrainingSpec& training,
                                          const ParallelSpec& parallel, const LocalShape& shape) {
  const int64_t element_bytes = ActivationElementBytes(training);
  const int64_t hidden_bytes = shape.local_tokens * shape.hidden * element_bytes;
  // The loss turns the logits into their gradient in place.
  const std::vector<SavedTensor> loss = {
      {"labels", shape.tokens * kTokenBytes},
      {"input", hidden_bytes},
      {"norm_statistics", NormStatisticsBytes(model, shape)},
      {"norm_output", hidden_bytes},
      {"logits_gradient", shape.tokens * shape.vocab * element_bytes}};
  std::vector<SavedTensor> saved = loss;
  for (int i = 0; i < model.num_multi_token_layers; ++i) {
    const std::string prefix = "multi_token." + std::to_string(i) + ".";
    const auto add = [&](const SavedTensor& tensor) {
      saved.push_back({prefix + tensor.name, tensor.num_bytes});
    };
    add({"tokens", shape.tokens * kTokenBytes});
    // The hidden state is the last layer's output, kept by the head.
    add({"embedding", hidden_bytes});
    add({"norms_statistics", 2 * NormStatisticsBytes(model, shape)});
    add({"norms_output", 2 * hidden_bytes});
    for (const SavedTensor& tensor :
         LayerSavedTensors(model, training, parallel, MultiTokenLayerForm(model), shape)) {
      add(tensor);
    }
    for (const SavedTensor& tensor : loss) add(tensor);
  }
  return saved;
}

int64_t ActivationLedger::Run(const Action& action) {
  if (IsTransfer(action.kind)) return held_bytes_;
  const StageActivationBytes& bytes = by_chunk_.at(action.virtual_stage / num_stages_);
  int64_t most_bytes = 0;
  switch (action.kind) {
    case ActionKind::kForward:
      most_bytes = held_bytes_ + bytes.working_bytes;
      held_bytes_ += bytes.saved_bytes;
      break;
    case ActionKind::kBackward:
      held_bytes_ -= bytes.saved_bytes;
      most_bytes = held_bytes_ + bytes.working_bytes;
      break;
    case ActionKind::kBackwardInput:
      held_bytes_ -= bytes.saved_bytes;
      most_bytes = held_bytes_ + bytes.input_part_bytes;
      held_bytes_ += bytes.weight_operand_bytes;
      break;
    default:
      most_bytes = held_bytes_;
      held_bytes_ -= bytes.weight_operand_bytes;
      break;
  }
  return most_bytes;
}

int64_t PeakActivationBytes(const std::vector<Action>& actions, int num_stages,
                            const std::vector<StageActivationBytes>& by_chunk) {
  ActivationLedger ledger(num_stages, by_chunk);
  int64_t peak_bytes = 0;
  for (const Action& action : actions) peak_bytes = std::max(peak_bytes, ledger.Run(action));
  return peak_bytes;
}

}  // namespace tessera::spec
