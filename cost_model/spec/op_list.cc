#include "cost_model/spec/op_list.h"

#include <algorithm>
#include <cmath>

#include "cost_model/spec/attention_ops.h"
#include "cost_model/spec/context_tokens.h"
#include "cost_model/spec/mlp_ops.h"
#include "cost_model/spec/op_writer.h"

namespace tessera::spec {
namespace {

using base::OpKind;

// Rows that an expert takes at most from the tokens of one rank; 0: any.
int64_t ExpertCapacity(const MoeSpec& moe, int64_t tokens) {
  const double share = static_cast<double>(tokens * moe.experts_per_token) / moe.num_experts;
  return static_cast<int64_t>(std::ceil(share * moe.capacity_factor));
}

void FillExpertShape(const MoeSpec& moe, const ParallelSpec& parallel, LocalShape& shape) {
  const int etp = ExpertTensorSize(parallel);
  shape.experts = moe.num_experts / parallel.expert_parallel_size;
  shape.expert_capacity = ExpertCapacity(moe, shape.local_tokens);
  // Every expert filled up, or balanced routing.
  shape.routed_rows = shape.expert_capacity > 0 ? shape.expert_capacity * moe.num_experts
                                                : shape.local_tokens * moe.experts_per_token;
  shape.expert_rows = shape.routed_rows * etp;
  shape.expert_ffn = moe.expert_ffn_hidden_size / etp;
  shape.shared_ffn = moe.shared_expert_ffn_hidden_size / parallel.tensor_parallel_size;
  shape.sorts_by_expert = shape.experts > 1 && parallel.expert_parallel_size * etp > 1;
}

void WriteLayerForward(OpWriter& write, const LayerForm& form) {
  WriteAttentionForward(write, form);
  WriteMlpUpToDown(write, form);
  WriteMlpDown(write, form);
}

void WriteLayerBackward(OpWriter& write, const LayerForm& form) {
  const Recompute recompute = write.parallel().recompute;
  if (recompute == Recompute::kFull) {
    write.set_recomputed(true);
    WriteAttentionForward(write, form);
    WriteMlpUpToDown(write, form);
    write.set_recomputed(false);
  }
  write.set_weights_put_off(write.parallel().schedule == ScheduleKind::kZeroBubbleH1);
  WriteMlpBackward(write, form);
  WriteAttentionBackward(write, form, recompute);
  write.set_weights_put_off(false);
}

void WriteWordEmbeddingForward(OpWriter& write) {
  const LocalShape& shape = write.shape();
  write.Add(OpKind::kEmbeddingForward, {shape.tokens, shape.hidden, shape.vocab});
  write.ReducePartialSums();
}

void WriteWordEmbeddingBackward(OpWriter& write) {
  const LocalShape& shape = write.shape();
  write.GatherTokens();
  write.Add(OpKind::kEmbeddingBackward, {shape.tokens, shape.hidden, shape.vocab});
}

// Final norm to the gradient of the logits.
void WriteLossForward(OpWriter& write) {
  const LocalShape& shape = write.shape();
  write.NormForward();
  write.GatherTokens();
  write.Linear(shape.tokens, shape.vocab, shape.hidden);
  write.Add(OpKind::kCrossEntropyMax, {shape.tokens, shape.vocab});
  write.AllReduce(shape.tokens, base::ReduceOp::kMax);
  write.Add(OpKind::kCrossEntropySumExp, {shape.tokens, shape.vocab});
  write.AllReduce(2 * shape.tokens, base::ReduceOp::kSum);
  write.Add(OpKind::kCrossEntropyGrad, {shape.tokens, shape.vocab});
}

void WriteLossBackward(OpWriter& write, bool adds_residual) {
  const LocalShape& shape = write.shape();
  write.ColumnParallelBackward(shape.vocab, shape.hidden);
  write.NormBackward(adds_residual);
}

// One multi-token module (DeepSeek-V3, arXiv:2412.19437, section 2.2): the hidden state and the
// embedding of the token ahead, normed and side by side, through a 2h -> h product, a layer and the
// shared head.
void WriteMultiTokenForward(OpWriter& write) {
  const LocalShape& shape = write.shape();
  WriteWordEmbeddingForward(write);
  if (shape.drops_embedding) write.Dropout();
  write.NormForward();
  write.NormForward();
  write.GatherTokens(2 * shape.hidden);
  write.Linear(shape.tokens, shape.hidden / shape.tensor_parallel_size, 2 * shape.hidden);
  write.GatherColumns(shape.hidden);
  WriteLayerForward(write, MultiTokenLayerForm(write.model()));
  WriteLossForward(write);
}

void WriteMultiTokenBackward(OpWriter& write) {
  const LocalShape& shape = write.shape();
  const int64_t columns = shape.hidden / shape.tensor_parallel_size;
  WriteLossBackward(write, /*adds_residual=*/true);
  WriteLayerBackward(write, MultiTokenLayerForm(write.model()));
  write.GatherTokens();
  write.ColumnParallelBackward(columns, 2 * shape.hidden);
  write.NormBackward(/*adds_residual=*/true);
  write.NormBackward(/*adds_residual=*/false);
  if (shape.drops_embedding) write.Dropout();
  WriteWordEmbeddingBackward(write);
}

void AppendLayersBackward(const ModelSpec& model, const ParallelSpec& parallel,
                          const LocalShape& shape, const VirtualStage& stage,
                          std::vector<Op>& ops) {
  const ParallelSpec keeping = KeepingLayers(parallel);
  const int first_kept = stage.first_layer + RecomputedLayers(parallel, stage);
  for (int layer = stage.first_layer + stage.num_layers - 1; layer >= stage.first_layer; --layer) {
    AppendLayerBackward(model, layer < first_kept ? parallel : keeping, LayerFormOf(model, layer),
                        shape, ops);
  }
}

// A stage's backward pass with these operations of its layers.
std::vector<Op> AroundLayers(const ModelSpec& model, const ParallelSpec& parallel,
                             const LocalShape& shape, const VirtualStage& stage,
                             const std::vector<Op>& layers) {
  std::vector<Op> ops;
  if (stage.has_head) AppendHeadBackward(model, parallel, shape, ops);
  ops.insert(ops.end(), layers.begin(), layers.end());
  if (stage.has_embedding) AppendEmbeddingBackward(model, parallel, shape, ops);
  return ops;
}

}  // namespace

LocalShape MakeLocalShape(const ModelSpec& model, const TrainingSpec& training,
                          const ParallelSpec& parallel, std::optional<int> context_rank) {
  const int tp = parallel.tensor_parallel_size;
  LocalShape shape;
  shape.batch = parallel.micro_batch_size;
  shape.sequence = training.sequence_length / parallel.context_parallel_size;
  shape.tokens = shape.batch * shape.sequence;
  shape.tensor_parallel_size = tp;
  shape.sequence_parallel = parallel.sequence_parallel && tp > 1;
  shape.local_tokens = shape.sequence_parallel ? shape.tokens / tp : shape.tokens;
  shape.hidden = model.hidden_size;
  shape.head_dim = model.head_dim;
  shape.value_head_dim = model.mla ? model.mla->v_head_dim : model.head_dim;
  shape.heads = model.num_attention_heads / tp;
  shape.kv_heads = std::max(1, model.num_key_value_heads / tp);
  shape.qkv_width =
      (shape.heads + shape.kv_heads) * shape.head_dim + shape.kv_heads * shape.value_head_dim;
  shape.attention_width = shape.heads * shape.value_head_dim;
  shape.ffn = model.ffn_hidden_size / tp;
  shape.vocab = PaddedVocabSize(model, parallel) / tp;
  shape.element_bytes = base::SizeBytes(TypesOf(training.precision).activation);
  shape.context_parallel_size = parallel.context_parallel_size;
  shape.context_rank = context_rank.value_or(PricedContextRank(parallel));
  shape.positions = ContextPositions(parallel, training.sequence_length, shape.context_rank);
  if (model.moe) FillExpertShape(*model.moe, parallel, shape);
  shape.drops_hidden = training.dropout.hidden > 0;
  shape.drops_attention = training.dropout.attention > 0;
  shape.drops_embedding = training.dropout.embedding > 0;
  shape.resets_positions = training.reset_position_ids;
  shape.resets_attention = training.reset_attention_mask;
  return shape;
}

bool IsWeightGradient(const Op& op) {
  const bool is_product =
      op.record.kind == OpKind::kMatMul || op.record.kind == OpKind::kGroupedMatMul;
  return is_product && op.record.dims[3] == static_cast<int64_t>(base::MatMulLayout::kTN);
}

void AppendLayerForward(const ModelSpec& model, const ParallelSpec& parallel, const LayerForm& form,
                        const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  WriteLayerForward(write, form);
}

void AppendLayerBackward(const ModelSpec& model, const ParallelSpec& parallel,
                         const LayerForm& form, const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  WriteLayerBackward(write, form);
}

void AppendEmbeddingForward(const ModelSpec& model, const ParallelSpec& parallel,
                            const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  WriteWordEmbeddingForward(write);
  if (model.position == PositionKind::kLearned) {
    write.Add(OpKind::kPositionForward, {shape.local_tokens, shape.hidden});
  }
  if (shape.drops_embedding) write.Dropout();
}

void AppendEmbeddingBackward(const ModelSpec& model, const ParallelSpec& parallel,
                             const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  if (shape.drops_embedding) write.Dropout();
  if (model.position == PositionKind::kLearned) {
    write.Add(OpKind::kPositionBackward, {shape.local_tokens, shape.hidden});
  }
  WriteWordEmbeddingBackward(write);
}

void AppendHeadForward(const ModelSpec& model, const ParallelSpec& parallel,
                       const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  WriteLossForward(write);
  for (int i = 0; i < model.num_multi_token_layers; ++i) WriteMultiTokenForward(write);
}

void AppendHeadBackward(const ModelSpec& model, const ParallelSpec& parallel,
                        const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  for (int i = 0; i < model.num_multi_token_layers; ++i) WriteMultiTokenBackward(write);
  // Both gradients of the last layer's output meet.
  WriteLossBackward(write, /*adds_residual=*/model.num_multi_token_layers > 0);
}

std::vector<Op> StageForwardOps(const ModelSpec& model, const TrainingSpec& training,
                                const ParallelSpec& parallel, const VirtualStage& stage,
                                std::optional<int> context_rank) {
  const LocalShape shape = MakeLocalShape(model, training, parallel, context_rank);
  std::vector<Op> ops;
  if (stage.has_embedding) AppendEmbeddingForward(model, parallel, shape, ops);
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
    AppendLayerForward(model, parallel, LayerFormOf(model, layer), shape, ops);
  }
  if (stage.has_head) AppendHeadForward(model, parallel, shape, ops);
  return ops;
}

std::vector<Op> StageBackwardOps(const ModelSpec& model, const TrainingSpec& training,
                                 const ParallelSpec& parallel, const VirtualStage& stage,
                                 std::optional<int> context_rank) {
  const LocalShape shape = MakeLocalShape(model, training, parallel, context_rank);
  std::vector<Op> layers;
  AppendLayersBackward(model, parallel, shape, stage, layers);
  return AroundLayers(model, parallel, shape, stage, layers);
}

std::vector<Op> StageBackwardInputOps(const ModelSpec& model, const TrainingSpec& training,
                                      const ParallelSpec& parallel, const VirtualStage& stage,
                                      std::optional<int> context_rank) {
  const LocalShape shape = MakeLocalShape(model, training, parallel, context_rank);
  std::vector<Op> layers;
  AppendLayersBackward(model, parallel, shape, stage, layers);
  std::erase_if(layers, IsWeightGradient);
  return AroundLayers(model, parallel, shape, stage, layers);
}

std::vector<Op> StageBackwardWeightOps(const ModelSpec& model, const TrainingSpec& training,
                                       const ParallelSpec& parallel, const VirtualStage& stage) {
  const LocalShape shape = MakeLocalShape(model, training, parallel);
  std::vector<Op> ops;
  AppendLayersBackward(model, parallel, shape, stage, ops);
  std::erase_if(ops, [](const Op& op) { return !IsWeightGradient(op); });
  return ops;
}

int64_t PipelineTransferElements(const LocalShape& shape) {
  return shape.local_tokens * shape.hidden;
}

int64_t SentTransferElements(const ParallelSpec& parallel, const LocalShape& shape) {
  const bool is_part = parallel.scatter_gather_transfers && !shape.sequence_parallel;
  return PipelineTransferElements(shape) / (is_part ? shape.tensor_parallel_size : 1);
}

}  // namespace tessera::spec
