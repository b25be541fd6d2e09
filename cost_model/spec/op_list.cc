#include "cost_model/spec/op_list.h"

#include <algorithm>

#include "cost_model/base/check.h"

namespace tessera::spec {
namespace {

using base::Epilogue;
using base::MatMulLayout;
using base::OpKind;

// Appends operations of one stage part, forward or backward.
class OpWriter {
 public:
  OpWriter(const ModelSpec& model, const ParallelSpec& parallel, const LocalShape& shape,
           std::vector<Op>& ops)
      : model_(model), parallel_(parallel), shape_(shape), ops_(ops) {}

  const ModelSpec& model() const { return model_; }
  const LocalShape& shape() const { return shape_; }
  void set_recomputed(bool recomputed) { recomputed_ = recomputed; }
  void set_form(const LayerForm& form) {
    window_ = form.is_windowed ? model_.sliding_window->size : 0;
  }

  void Add(OpKind kind, base::OpDims dims) {
    ops_.push_back({.record = {.kind = kind, .dims = dims}, .recomputed = recomputed_});
  }

  // y[rows, out] = x[rows, in] W[out, in]^T
  void Linear(int64_t rows, int64_t out, int64_t in, Epilogue epilogue) {
    MatMul(rows, out, in, MatMulLayout::kNT, false, epilogue);
  }
  // dx[rows, in] = dy[rows, out] W[out, in]
  void DataGradient(int64_t rows, int64_t out, int64_t in, Epilogue epilogue = Epilogue::kNone) {
    MatMul(rows, in, out, MatMulLayout::kNN, false, epilogue);
  }
  // dW[out, in] += dy[rows, out]^T x[rows, in]
  void WeightGradient(int64_t rows, int64_t out, int64_t in) {
    MatMul(out, in, rows, MatMulLayout::kTN, true, Epilogue::kNone);
  }

  void NormForward() {
    Add(model_.norm == NormKind::kLayerNorm ? OpKind::kLayerNormForward : OpKind::kRmsNormForward,
        {shape_.local_tokens, shape_.hidden});
  }
  void NormBackward(bool adds_residual) {
    Add(model_.norm == NormKind::kLayerNorm ? OpKind::kLayerNormBackward : OpKind::kRmsNormBackward,
        {shape_.local_tokens, shape_.hidden, adds_residual});
  }
  void ResidualAdd(bool has_bias) {
    Add(OpKind::kResidualAdd, {shape_.local_tokens, shape_.hidden, has_bias});
  }
  void BiasGrad(bool has_bias, int64_t rows, int64_t width) {
    if (has_bias) Add(OpKind::kBiasGrad, {rows, width});
  }

  // Entering a column-parallel product: under sequence parallelism the tokens are gathered.
  void GatherTokens() {
    if (shape_.sequence_parallel) {
      Collective(OpKind::kAllGather, shape_.tokens * shape_.hidden);
    }
  }
  // Leaving a row-parallel product: partial sums are added up (and tokens scattered).
  void ReducePartialSums() {
    const int64_t elements = shape_.tokens * shape_.hidden;
    if (shape_.sequence_parallel) {
      Collective(OpKind::kReduceScatter, elements);
    } else {
      AllReduce(elements, base::ReduceOp::kSum);
    }
  }
  void AllReduce(int64_t elements, base::ReduceOp op) {
    if (shape_.tensor_parallel_size == 1) return;
    Add(OpKind::kAllReduce, {elements, shape_.tensor_parallel_size,
                             static_cast<int64_t>(Axis::kTensor), static_cast<int64_t>(op)});
  }

  void AttentionForward() { Attention(OpKind::kAttentionForward); }
  void AttentionBackward() { Attention(OpKind::kAttentionBackward); }
  void Rope(bool inverse) {
    if (model_.position != PositionKind::kRope) return;
    Add(OpKind::kRope, {shape_.tokens, shape_.heads + shape_.kv_heads, shape_.head_dim, inverse});
  }

 private:
  void MatMul(int64_t m, int64_t n, int64_t k, MatMulLayout layout, bool accumulate,
              Epilogue epilogue) {
    Add(OpKind::kMatMul,
        {m, n, k, static_cast<int64_t>(layout), accumulate, static_cast<int64_t>(epilogue)});
  }
  void Collective(OpKind kind, int64_t elements) {
    Add(kind, {elements, shape_.tensor_parallel_size, static_cast<int64_t>(Axis::kTensor)});
  }
  void Attention(OpKind kind) {
    const auto stats = parallel_.attention == AttentionKind::kFlash
                           ? base::AttentionStats::kLogSumExp
                           : base::AttentionStats::kProbabilities;
    Add(kind, {shape_.batch, shape_.sequence, shape_.heads, shape_.kv_heads, shape_.head_dim,
               static_cast<int64_t>(stats), 0, 0, window_});
  }

  const ModelSpec& model_;
  const ParallelSpec& parallel_;
  const LocalShape& shape_;
  std::vector<Op>& ops_;
  bool recomputed_ = false;
  int64_t window_ = 0;
};

bool IsGated(const ModelSpec& model) { return model.activation == ActivationKind::kSwiGlu; }
Epilogue BiasEpilogue(bool has_bias) { return has_bias ? Epilogue::kBias : Epilogue::kNone; }
// Width of the first MLP product: gate and up together where there is a gate.
int64_t FirstMlpWidth(const ModelSpec& model, const LocalShape& shape) {
  return IsGated(model) ? 2 * shape.ffn : shape.ffn;
}

// The layer up to the input of its last product: all that the backward pass reads.
void WriteLayerUpToMlpDown(OpWriter& write) {
  const ModelSpec& model = write.model();
  const LocalShape& shape = write.shape();
  write.NormForward();
  write.GatherTokens();
  write.Linear(shape.tokens, shape.qkv_width, shape.hidden, BiasEpilogue(model.qkv_bias));
  write.Rope(/*inverse=*/false);
  write.AttentionForward();
  write.Linear(shape.tokens, shape.hidden, shape.attention_width, Epilogue::kNone);
  write.ReducePartialSums();
  write.ResidualAdd(model.attention_output_bias);
  write.NormForward();
  write.GatherTokens();
  if (IsGated(model)) {
    write.Linear(shape.tokens, 2 * shape.ffn, shape.hidden, BiasEpilogue(model.mlp_bias));
    write.Add(OpKind::kSwiGluForward, {shape.tokens, shape.ffn});
  } else {
    write.Linear(shape.tokens, shape.ffn, shape.hidden, Epilogue::kBiasGelu);
  }
}

void WriteMlpBackward(OpWriter& write) {
  const ModelSpec& model = write.model();
  const LocalShape& shape = write.shape();
  const int64_t first_width = FirstMlpWidth(model, shape);
  write.BiasGrad(model.mlp_bias, shape.local_tokens, shape.hidden);
  write.GatherTokens();
  write.DataGradient(shape.tokens, shape.hidden, shape.ffn,
                     IsGated(model) ? Epilogue::kNone : Epilogue::kGeluGrad);
  write.WeightGradient(shape.tokens, shape.hidden, shape.ffn);
  if (IsGated(model)) write.Add(OpKind::kSwiGluBackward, {shape.tokens, shape.ffn});
  write.BiasGrad(model.mlp_bias, shape.tokens, first_width);
  write.DataGradient(shape.tokens, first_width, shape.hidden);
  write.ReducePartialSums();
  write.GatherTokens();
  write.WeightGradient(shape.tokens, first_width, shape.hidden);
  write.NormBackward(/*adds_residual=*/true);
}

void WriteAttentionBackward(OpWriter& write, Recompute recompute) {
  const ModelSpec& model = write.model();
  const LocalShape& shape = write.shape();
  write.BiasGrad(model.attention_output_bias, shape.local_tokens, shape.hidden);
  write.GatherTokens();
  write.DataGradient(shape.tokens, shape.hidden, shape.attention_width);
  write.WeightGradient(shape.tokens, shape.hidden, shape.attention_width);
  if (recompute == Recompute::kSelective) {
    write.set_recomputed(true);
    write.AttentionForward();
    write.set_recomputed(false);
  }
  write.AttentionBackward();
  write.Rope(/*inverse=*/true);
  write.BiasGrad(model.qkv_bias, shape.tokens, shape.qkv_width);
  write.DataGradient(shape.tokens, shape.qkv_width, shape.hidden);
  write.ReducePartialSums();
  write.GatherTokens();
  write.WeightGradient(shape.tokens, shape.qkv_width, shape.hidden);
  write.NormBackward(/*adds_residual=*/true);
}

}  // namespace

LocalShape MakeLocalShape(const ModelSpec& model, const TrainingSpec& training,
                          const ParallelSpec& parallel) {
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
  shape.heads = model.num_attention_heads / tp;
  shape.kv_heads = std::max(1, model.num_key_value_heads / tp);
  shape.qkv_width = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  shape.attention_width = shape.heads * shape.head_dim;
  shape.ffn = model.ffn_hidden_size / tp;
  shape.vocab = PaddedVocabSize(model, parallel) / tp;
  return shape;
}

bool IsWeightGradient(const Op& op) {
  const bool is_product =
      op.record.kind == OpKind::kMatMul || op.record.kind == OpKind::kGroupedMatMul;
  return is_product && op.record.dims[3] == static_cast<int64_t>(MatMulLayout::kTN);
}

void AppendLayerForward(const ModelSpec& model, const ParallelSpec& parallel, const LayerForm& form,
                        const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  write.set_form(form);
  WriteLayerUpToMlpDown(write);
  write.Linear(shape.tokens, shape.hidden, shape.ffn, Epilogue::kNone);
  write.ReducePartialSums();
  write.ResidualAdd(model.mlp_bias);
}

void AppendLayerBackward(const ModelSpec& model, const ParallelSpec& parallel,
                         const LayerForm& form, const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  write.set_form(form);
  if (parallel.recompute == Recompute::kFull) {
    write.set_recomputed(true);
    WriteLayerUpToMlpDown(write);
    write.set_recomputed(false);
  }
  WriteMlpBackward(write);
  WriteAttentionBackward(write, parallel.recompute);
}

void AppendEmbeddingForward(const ModelSpec& model, const ParallelSpec& parallel,
                            const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  write.Add(OpKind::kEmbeddingForward, {shape.tokens, shape.hidden, shape.vocab});
  write.ReducePartialSums();
  if (model.position == PositionKind::kLearned) {
    write.Add(OpKind::kPositionForward, {shape.local_tokens, shape.hidden});
  }
}

void AppendEmbeddingBackward(const ModelSpec& model, const ParallelSpec& parallel,
                             const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  if (model.position == PositionKind::kLearned) {
    write.Add(OpKind::kPositionBackward, {shape.local_tokens, shape.hidden});
  }
  write.GatherTokens();
  write.Add(OpKind::kEmbeddingBackward, {shape.tokens, shape.hidden, shape.vocab});
}

void AppendHeadForward(const ModelSpec& model, const ParallelSpec& parallel,
                       const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  write.NormForward();
  write.GatherTokens();
  write.Linear(shape.tokens, shape.vocab, shape.hidden, Epilogue::kNone);
  write.Add(OpKind::kCrossEntropyMax, {shape.tokens, shape.vocab});
  write.AllReduce(shape.tokens, base::ReduceOp::kMax);
  write.Add(OpKind::kCrossEntropySumExp, {shape.tokens, shape.vocab});
  write.AllReduce(2 * shape.tokens, base::ReduceOp::kSum);
  write.Add(OpKind::kCrossEntropyGrad, {shape.tokens, shape.vocab});
}

void AppendHeadBackward(const ModelSpec& model, const ParallelSpec& parallel,
                        const LocalShape& shape, std::vector<Op>& ops) {
  OpWriter write(model, parallel, shape, ops);
  write.DataGradient(shape.tokens, shape.vocab, shape.hidden);
  write.ReducePartialSums();
  write.GatherTokens();
  write.WeightGradient(shape.tokens, shape.vocab, shape.hidden);
  write.NormBackward(/*adds_residual=*/false);
}

std::vector<Op> StageForwardOps(const ModelSpec& model, const TrainingSpec& training,
                                const ParallelSpec& parallel, const VirtualStage& stage) {
  const LocalShape shape = MakeLocalShape(model, training, parallel);
  std::vector<Op> ops;
  if (stage.has_embedding) AppendEmbeddingForward(model, parallel, shape, ops);
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
    AppendLayerForward(model, parallel, LayerFormOf(model, layer), shape, ops);
  }
  if (stage.has_head) AppendHeadForward(model, parallel, shape, ops);
  return ops;
}

std::vector<Op> StageBackwardOps(const ModelSpec& model, const TrainingSpec& training,
                                 const ParallelSpec& parallel, const VirtualStage& stage) {
  const LocalShape shape = MakeLocalShape(model, training, parallel);
  std::vector<Op> ops;
  if (stage.has_head) AppendHeadBackward(model, parallel, shape, ops);
  const ParallelSpec keeping = KeepingLayers(parallel);
  const int first_kept = stage.first_layer + RecomputedLayers(parallel, stage);
  for (int layer = stage.first_layer + stage.num_layers - 1; layer >= stage.first_layer; --layer) {
    AppendLayerBackward(model, layer < first_kept ? parallel : keeping, LayerFormOf(model, layer),
                        shape, ops);
  }
  if (stage.has_embedding) AppendEmbeddingBackward(model, parallel, shape, ops);
  return ops;
}

int64_t PipelineTransferElements(const LocalShape& shape) {
  return shape.local_tokens * shape.hidden;
}

}  // namespace tessera::spec
