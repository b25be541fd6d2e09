#include "kernels/backend.h"

#include <limits>

#include "kernels/op_checks.h"

namespace tessera::kernels {
namespace {

using base::Epilogue;
using base::MatMulLayout;
using base::OpKind;
using base::OpRecord;

void CheckEpilogue(const MatMulArgs& args) {
  const bool needs_bias = args.epilogue == Epilogue::kBias;
  const bool takes_bias = needs_bias || args.epilogue == Epilogue::kBiasGelu;
  const bool needs_aux =
      args.epilogue == Epilogue::kBiasGelu || args.epilogue == Epilogue::kGeluGrad;
  TESSERA_CHECK(args.bias ? takes_bias : !needs_bias, "bias and epilogue ",
                static_cast<int>(args.epilogue));
  TESSERA_CHECK(static_cast<bool>(args.aux) == needs_aux, "aux and epilogue ",
                static_cast<int>(args.epilogue));
  TESSERA_CHECK(!args.accumulate || args.epilogue == Epilogue::kNone, "accumulate with epilogue ",
                static_cast<int>(args.epilogue));
}

OpRecord CheckNormForward(OpKind kind, const NormForwardArgs& args) {
  const OpRecord record{kind, {args.num_rows, args.width}};
  CheckPositive(record, {args.num_rows, args.width});
  CheckPresent(kind, {args.x, args.gamma, args.y, args.rstd});
  const bool is_layer_norm = kind == OpKind::kLayerNormForward;
  TESSERA_CHECK(static_cast<bool>(args.beta) == is_layer_norm, "beta of ", base::ToString(kind));
  TESSERA_CHECK(static_cast<bool>(args.mean) == is_layer_norm, "mean of ", base::ToString(kind));
  TESSERA_CHECK(args.x.data != args.y.data, "the backward pass reads x: y must not alias it");
  return record;
}

OpRecord CheckNormBackward(OpKind kind, const NormBackwardArgs& args) {
  const OpRecord record{kind,
                        {args.num_rows, args.width, Flag(static_cast<bool>(args.residual_grad))}};
  CheckPositive(record, {args.num_rows, args.width});
  CheckPresent(kind, {args.dy, args.x, args.gamma, args.rstd, args.dx, args.dgamma});
  const bool is_layer_norm = kind == OpKind::kLayerNormBackward;
  TESSERA_CHECK(static_cast<bool>(args.dbeta) == is_layer_norm, "dbeta of ", base::ToString(kind));
  TESSERA_CHECK(static_cast<bool>(args.mean) == is_layer_norm, "mean of ", base::ToString(kind));
  TESSERA_CHECK(args.dx.data != args.x.data, "dx must not alias x");
  return record;
}

// Elementwise passes may be empty: a shard of a small tensor often is.
OpRecord CheckElements(OpKind kind, int64_t n, std::initializer_list<ConstArray> arrays) {
  TESSERA_CHECK(n >= 0, base::ToString(kind), " of ", n, " elements");
  if (n > 0) CheckPresent(kind, arrays);
  return {kind, {n}};
}

template <typename Args>
OpRecord CheckCrossEntropy(OpKind kind, const Args& args) {
  const OpRecord record{kind, {args.num_rows, args.num_columns}};
  CheckPositive(record, {args.num_rows, args.num_columns});
  TESSERA_CHECK(args.num_valid >= 0 && args.num_valid <= args.num_columns, "num_valid ",
                args.num_valid, " of ", base::ToString(record));
  return record;
}

template <typename Args>
OpRecord CheckEmbedding(OpKind kind, const Args& args) {
  const OpRecord record{kind, {args.num_rows, args.width, args.num_vocab_rows}};
  CheckPositive(record, {args.num_rows, args.width});
  TESSERA_CHECK(args.num_vocab_rows >= 0 && args.vocab_begin >= 0, "vocab_begin ", args.vocab_begin,
                " of ", base::ToString(record));
  return record;
}

template <typename Args>
OpRecord CheckPosition(OpKind kind, const Args& args) {
  const OpRecord record{kind, {args.num_rows, args.width}};
  CheckPositive(record, {args.num_rows, args.width, args.sequence});
  TESSERA_CHECK(args.first_row >= 0, "first_row ", args.first_row);
  return record;
}

}  // namespace

std::unique_ptr<OpGraph> Backend::Capture(const std::function<void()>& /*work*/) {
  base::FailCheck(__FILE__, __LINE__, "a device with graphs", "none");
}

void Backend::Launch(const OpGraph& /*graph*/) {
  base::FailCheck(__FILE__, __LINE__, "a device with graphs", "none");
}

size_t Backend::Mark() {
  marks_.push_back(std::chrono::steady_clock::now());
  return marks_.size() - 1;
}

std::vector<double> Backend::TakeMarks() {
  Synchronize();
  std::vector<double> times_s;
  for (const auto& mark : marks_) {
    times_s.push_back(std::chrono::duration<double>(mark - marks_.front()).count());
  }
  marks_.clear();
  return times_s;
}

void Backend::MatMul(const MatMulArgs& args) {
  const OpRecord record{OpKind::kMatMul,
                        {args.m, args.n, args.k, static_cast<int64_t>(args.layout),
                         Flag(args.accumulate), static_cast<int64_t>(args.epilogue)}};
  CheckPositive(record, {args.m, args.n, args.k});
  CheckPresent(OpKind::kMatMul, {args.a, args.b, args.c});
  TESSERA_CHECK(args.lda >= (args.layout == MatMulLayout::kTN ? args.m : args.k), "lda ", args.lda,
                " of ", base::ToString(record));
  TESSERA_CHECK(args.ldb >= (args.layout == MatMulLayout::kNT ? args.k : args.n), "ldb ", args.ldb,
                " of ", base::ToString(record));
  TESSERA_CHECK(args.ldc >= args.n, "ldc ", args.ldc, " of ", base::ToString(record));
  CheckEpilogue(args);
  const ObservedOp op(observer_, record);
  DoMatMul(args);
}

void Backend::LayerNormForward(const NormForwardArgs& args) {
  const ObservedOp op(observer_, CheckNormForward(OpKind::kLayerNormForward, args));
  DoLayerNormForward(args);
}

void Backend::LayerNormBackward(const NormBackwardArgs& args) {
  const ObservedOp op(observer_, CheckNormBackward(OpKind::kLayerNormBackward, args));
  DoLayerNormBackward(args);
}

void Backend::RmsNormForward(const NormForwardArgs& args) {
  const ObservedOp op(observer_, CheckNormForward(OpKind::kRmsNormForward, args));
  DoRmsNormForward(args);
}

void Backend::RmsNormBackward(const NormBackwardArgs& args) {
  const ObservedOp op(observer_, CheckNormBackward(OpKind::kRmsNormBackward, args));
  DoRmsNormBackward(args);
}

void Backend::ResidualAdd(const ResidualAddArgs& args) {
  const OpRecord record{OpKind::kResidualAdd,
                        {args.num_rows, args.width, Flag(static_cast<bool>(args.bias)),
                         Flag(args.dropout.probability > 0)}};
  CheckPositive(record, {args.num_rows, args.width});
  CheckPresent(record.kind, {args.x, args.residual, args.y});
  CheckProbability(args.dropout.probability);
  const ObservedOp op(observer_, record);
  DoResidualAdd(args);
}

void Backend::BiasGrad(const BiasGradArgs& args) {
  const OpRecord record{OpKind::kBiasGrad, {args.num_rows, args.width}};
  CheckPositive(record, {args.num_rows, args.width});
  CheckPresent(record.kind, {args.dy, args.dbias});
  TESSERA_CHECK(args.stride >= args.width, "stride ", args.stride, " of ", base::ToString(record));
  const ObservedOp op(observer_, record);
  DoBiasGrad(args);
}

void Backend::SwiGluForward(const SwiGluForwardArgs& args) {
  const OpRecord record{OpKind::kSwiGluForward,
                        {args.num_rows, args.width, Flag(static_cast<bool>(args.row_weight))}};
  CheckRowsAndWidth(record);
  if (args.num_rows > 0) CheckPresent(record.kind, {args.gate_up, args.y});
  const ObservedOp op(observer_, record);
  DoSwiGluForward(args);
}

void Backend::SwiGluBackward(const SwiGluBackwardArgs& args) {
  const OpRecord record{OpKind::kSwiGluBackward,
                        {args.num_rows, args.width, Flag(static_cast<bool>(args.row_weight))}};
  CheckRowsAndWidth(record);
  if (args.num_rows > 0) CheckPresent(record.kind, {args.dy, args.gate_up, args.dgate_up});
  TESSERA_CHECK(static_cast<bool>(args.row_weight) == static_cast<bool>(args.dweight),
                "weights of rows and their gradient");
  const ObservedOp op(observer_, record);
  DoSwiGluBackward(args);
}

void Backend::Rope(const RopeArgs& args) {
  const OpRecord record{OpKind::kRope,
                        {args.num_rows, args.num_heads, args.head_dim, Flag(args.inverse)}};
  CheckPositive(record, {args.num_rows, args.sequence, args.num_heads, args.head_dim});
  CheckPresent(record.kind, {args.qk});
  TESSERA_CHECK(args.inverse_frequency != nullptr, "no frequencies of ", base::ToString(record));
  TESSERA_CHECK(args.head_dim % 2 == 0, "head_dim of ", base::ToString(record));
  TESSERA_CHECK(args.stride >= args.num_heads * args.head_dim, "stride ", args.stride, " of ",
                base::ToString(record));
  const ObservedOp op(observer_, record);
  DoRope(args);
}

void Backend::EmbeddingForward(const EmbeddingForwardArgs& args) {
  const OpRecord record = CheckEmbedding(OpKind::kEmbeddingForward, args);
  CheckPresent(record.kind, {args.tokens, args.out});
  TESSERA_CHECK(args.table || args.num_vocab_rows == 0, "no table");
  const ObservedOp op(observer_, record);
  DoEmbeddingForward(args);
}

void Backend::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  const OpRecord record = CheckEmbedding(OpKind::kEmbeddingBackward, args);
  CheckPresent(record.kind, {args.tokens, args.dout});
  TESSERA_CHECK(args.dtable || args.num_vocab_rows == 0, "no dtable");
  const ObservedOp op(observer_, record);
  DoEmbeddingBackward(args);
}

void Backend::PositionForward(const PositionForwardArgs& args) {
  const OpRecord record = CheckPosition(OpKind::kPositionForward, args);
  CheckPresent(record.kind, {args.table, args.x});
  const ObservedOp op(observer_, record);
  DoPositionForward(args);
}

void Backend::PositionBackward(const PositionBackwardArgs& args) {
  const OpRecord record = CheckPosition(OpKind::kPositionBackward, args);
  CheckPresent(record.kind, {args.dx, args.dtable});
  const ObservedOp op(observer_, record);
  DoPositionBackward(args);
}

void Backend::CrossEntropyMax(const CrossEntropyMaxArgs& args) {
  const OpRecord record = CheckCrossEntropy(OpKind::kCrossEntropyMax, args);
  CheckPresent(record.kind, {args.logits, args.max});
  const ObservedOp op(observer_, record);
  DoCrossEntropyMax(args);
}

void Backend::CrossEntropySumExp(const CrossEntropySumExpArgs& args) {
  const OpRecord record = CheckCrossEntropy(OpKind::kCrossEntropySumExp, args);
  CheckPresent(record.kind, {args.logits, args.labels, args.max, args.sum_exp, args.target_logit});
  const ObservedOp op(observer_, record);
  DoCrossEntropySumExp(args);
}

void Backend::CrossEntropyGrad(const CrossEntropyGradArgs& args) {
  const OpRecord record = CheckCrossEntropy(OpKind::kCrossEntropyGrad, args);
  CheckPresent(record.kind,
               {args.logits, args.labels, args.max, args.sum_exp, args.target_logit, args.loss});
  TESSERA_CHECK(args.loss_sum != nullptr, "no place for the sum of losses");
  const ObservedOp op(observer_, record);
  DoCrossEntropyGrad(args);
}

void Backend::SumOfSquares(const SumOfSquaresArgs& args) {
  const OpRecord record = CheckElements(OpKind::kSumOfSquares, args.n, {args.x});
  TESSERA_CHECK(args.sum != nullptr, "no place for the sum");
  const ObservedOp op(observer_, record);
  DoSumOfSquares(args);
}

void Backend::AdamW(const AdamWArgs& args) {
  const OpRecord record =
      CheckElements(OpKind::kAdamW, args.n, {args.param, args.grad, args.m, args.v});
  TESSERA_CHECK(args.step >= 1, "step ", args.step);
  TESSERA_CHECK(args.n == 0 || args.master || args.param.dtype == base::DType::kFloat32,
                "no master weights of ", base::ToString(args.param.dtype));
  const ObservedOp op(observer_, record);
  DoAdamW(args);
}

void Backend::Scale(Array x, int64_t n, float factor) {
  const ObservedOp op(observer_, CheckElements(OpKind::kScale, n, {x}));
  DoScale(x, n, factor);
}

void Backend::Add(ConstArray x, Array y, int64_t n) {
  const ObservedOp op(observer_, CheckElements(OpKind::kAdd, n, {x, y}));
  DoAdd(x, y, n);
}

void Backend::Fill(Array x, int64_t n, float value) {
  const ObservedOp op(observer_, CheckElements(OpKind::kFill, n, {x}));
  DoFill(x, n, value);
}

void Backend::Copy(ConstArray source, Array destination, int64_t n) {
  const OpRecord record = CheckElements(OpKind::kCopy, n, {source, destination});
  TESSERA_CHECK(n == 0 || source.dtype == destination.dtype, "copy from ",
                base::ToString(source.dtype), " to ", base::ToString(destination.dtype));
  const ObservedOp op(observer_, record);
  DoCopy(source, destination, n);
}

void Backend::Cast(ConstArray source, Array destination, int64_t n) {
  const ObservedOp op(observer_, CheckElements(OpKind::kCast, n, {source, destination}));
  DoCast(source, destination, n);
}

void Backend::CopyRows(const CopyRowsArgs& args) {
  const OpRecord record{OpKind::kCopyRows, {args.num_blocks * args.num_rows, args.width}};
  CheckPositive(record, {args.num_blocks, args.num_rows, args.width});
  CheckPresent(record.kind, {args.x, args.y});
  const ObservedOp op(observer_, record);
  DoCopyRows(args);
}

void Backend::Dropout(const DropoutArgs& args) {
  const OpRecord record{OpKind::kDropout, {args.num_rows, args.width}};
  CheckPositive(record, {args.num_rows, args.width});
  CheckPresent(record.kind, {args.x, args.y});
  CheckProbability(args.dropout.probability);
  const ObservedOp op(observer_, record);
  DoDropout(args);
}

void Backend::SumBlocks(const SumBlocksArgs& args) {
  const OpRecord record{OpKind::kSumBlocks, {args.n, args.num_blocks}};
  CheckPositive(record, {args.n, args.num_blocks});
  CheckPresent(record.kind, {args.x, args.y});
  const ObservedOp op(observer_, record);
  DoSumBlocks(args);
}

}  // namespace tessera::kernels
