// What forward passes keep for backward passes: declared in op_list.h.
#include <algorithm>

#include "cost_model/spec/op_list.h"

namespace tessera::spec {
namespace {

constexpr int64_t kStatisticBytes = 4;  // norms, softmax: fp32 in every precision
constexpr int64_t kTokenBytes = 4;      // token ids and labels: int32

// A norm keeps one (RMSNorm) or two (LayerNorm) numbers a token.
int64_t NormStatisticsBytes(const ModelSpec& model, const LocalShape& shape) {
  const int64_t per_token = model.norm == NormKind::kLayerNorm ? 2 : 1;
  return shape.local_tokens * per_token * kStatisticBytes;
}

int64_t AttentionStatsBytes(const ParallelSpec& parallel, const LocalShape& shape,
                            int64_t element_bytes) {
  const int64_t rows = shape.batch * shape.heads * shape.sequence;
  return parallel.attention == AttentionKind::kFlash ? rows * kStatisticBytes
                                                     : rows * shape.sequence * element_bytes;
}

int64_t ActivationElementBytes(const TrainingSpec& training) {
  return base::SizeBytes(TypesOf(training.precision).activation);
}

// Everything but the layer's input.
std::vector<SavedTensor> InnerTensors(const ModelSpec& model, const TrainingSpec& training,
                                      const ParallelSpec& parallel,
                                      [[maybe_unused]] const LayerForm& form,
                                      const LocalShape& shape, bool with_attention_stats) {
  const int64_t element_bytes = ActivationElementBytes(training);
  const int64_t hidden_bytes = shape.local_tokens * shape.hidden * element_bytes;
  const int64_t mlp_bytes = shape.tokens * shape.ffn * element_bytes;
  const bool gated = model.activation == ActivationKind::kSwiGlu;
  std::vector<SavedTensor> saved = {
      {"attention_norm_statistics", NormStatisticsBytes(model, shape)},
      {"attention_norm_output", hidden_bytes},
      {"qkv", shape.tokens * shape.qkv_width * element_bytes},
      {"attention_output", shape.tokens * shape.attention_width * element_bytes}};
  if (with_attention_stats) {
    saved.push_back({"attention_stats", AttentionStatsBytes(parallel, shape, element_bytes)});
  }
  saved.push_back({"mlp_input", hidden_bytes});
  saved.push_back({"mlp_norm_statistics", NormStatisticsBytes(model, shape)});
  saved.push_back({"mlp_norm_output", hidden_bytes});
  saved.push_back({"mlp_pre_activation", gated ? 2 * mlp_bytes : mlp_bytes});
  saved.push_back({"mlp_activation", mlp_bytes});
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

std::vector<SavedTensor> HeadSavedTensors(const ModelSpec& model, const TrainingSpec& training,
                                          const LocalShape& shape) {
  const int64_t hidden_bytes = shape.local_tokens * shape.hidden * ActivationElementBytes(training);
  // The loss turns the logits into their gradient in place, in fp32.
  return {{"labels", shape.tokens * kTokenBytes},
          {"input", hidden_bytes},
          {"norm_statistics", NormStatisticsBytes(model, shape)},
          {"norm_output", hidden_bytes},
          {"logits_gradient", shape.tokens * shape.vocab * kStatisticBytes}};
}

StageActivationBytes ActivationBytesOf(const ModelSpec& model, const TrainingSpec& training,
                                       const ParallelSpec& parallel, const VirtualStage& stage) {
  const LocalShape shape = MakeLocalShape(model, training, parallel);
  const bool has_weight_passes = parallel.schedule == ScheduleKind::kZeroBubbleH1;
  int64_t layers_bytes = 0;
  int64_t recomputed_bytes = 0;
  int64_t operand_bytes = 0;
  const auto add_layers = [&](const VirtualStage& layers, const ParallelSpec& alike) {
    const PerForm<int> counts = CountForms(model, layers);
    for (size_t i = 0; i < kNumLayerForms; ++i) {
      if (counts[i] == 0) continue;
      const LayerForm form = FormAt(i);
      layers_bytes += counts[i] * SumBytes(LayerSavedTensors(model, training, alike, form, shape));
      recomputed_bytes = std::max(
          recomputed_bytes, SumBytes(LayerRecomputedTensors(model, training, alike, form, shape)));
      if (!has_weight_passes) continue;
      operand_bytes += counts[i] * LayerWeightOperandBytes(model, training, alike, form, shape);
    }
  };
  VirtualStage first_layers = stage;
  first_layers.num_layers = RecomputedLayers(parallel, stage);
  add_layers(first_layers, parallel);
  if (first_layers.num_layers < stage.num_layers) {
    VirtualStage other_layers = stage;
    other_layers.first_layer += first_layers.num_layers;
    other_layers.num_layers -= first_layers.num_layers;
    add_layers(other_layers, KeepingLayers(parallel));
  }
  if (stage.has_embedding) layers_bytes += SumBytes(EmbeddingSavedTensors(shape));
  const int64_t head_bytes =
      stage.has_head ? SumBytes(HeadSavedTensors(model, training, shape)) : 0;
  return {.saved_bytes = layers_bytes + head_bytes,
          .working_bytes = layers_bytes + std::max(head_bytes, recomputed_bytes),
          .weight_operand_bytes = operand_bytes};
}

int64_t PeakActivationBytes(const std::vector<Action>& actions, int num_stages,
                            const std::vector<StageActivationBytes>& by_chunk) {
  int64_t saved_bytes = 0;
  int64_t peak_bytes = 0;
  for (const Action& action : actions) {
    const StageActivationBytes& bytes = by_chunk.at(action.virtual_stage / num_stages);
    if (action.kind == ActionKind::kForward) {
      peak_bytes = std::max(peak_bytes, saved_bytes + bytes.working_bytes);
      saved_bytes += bytes.saved_bytes;
    } else if (action.kind == ActionKind::kBackward) {
      saved_bytes -= bytes.saved_bytes;
      peak_bytes = std::max(peak_bytes, saved_bytes + bytes.working_bytes);
    } else if (action.kind == ActionKind::kBackwardInput) {
      // Layer by layer, operands of weight gradients take the place of what was saved.
      saved_bytes -= bytes.saved_bytes;
      const int64_t recomputed_bytes = bytes.working_bytes - bytes.saved_bytes;
      peak_bytes = std::max({peak_bytes, saved_bytes + bytes.working_bytes,
                             saved_bytes + bytes.weight_operand_bytes + recomputed_bytes});
      saved_bytes += bytes.weight_operand_bytes;
    } else if (action.kind == ActionKind::kBackwardWeight) {
      saved_bytes -= bytes.weight_operand_bytes;
    }
  }
  return peak_bytes;
}

}  // namespace tessera::spec
