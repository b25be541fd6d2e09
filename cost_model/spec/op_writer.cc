#include "cost_model/spec/op_writer.h"

namespace tessera::spec {

using base::Epilogue;
using base::MatMulLayout;
using base::OpKind;

namespace {

base::OpDims ProductDims(int64_t m, int64_t n, int64_t k, MatMulLayout layout, Epilogue epilogue,
                         int64_t num_groups = 0) {
  const bool accumulate = layout == MatMulLayout::kTN;  // into the gradient
  return {m,         n, k, static_cast<int64_t>(layout), accumulate, static_cast<int64_t>(epilogue),
          num_groups};
}

}  // namespace

void OpWriter::Linear(int64_t rows, int64_t out, int64_t in, Epilogue epilogue) {
  Add(OpKind::kMatMul, ProductDims(rows, out, in, MatMulLayout::kNT, epilogue));
}

void OpWriter::DataGradient(int64_t rows, int64_t out, int64_t in, Epilogue epilogue) {
  Add(OpKind::kMatMul, ProductDims(rows, in, out, MatMulLayout::kNN, epilogue));
}

void OpWriter::AddDataGradient(int64_t rows, int64_t out, int64_t in) {
  base::OpDims dims = ProductDims(rows, in, out, MatMulLayout::kNN, Epilogue::kNone);
  dims[4] = 1;  // accumulates
  Add(OpKind::kMatMul, dims);
}

void OpWriter::WeightGradient(int64_t rows, int64_t out, int64_t in) {
  Add(OpKind::kMatMul, ProductDims(out, in, rows, MatMulLayout::kTN, Epilogue::kNone));
}

void OpWriter::ColumnParallelBackward(int64_t out, int64_t in, const ColumnParallelInput& input) {
  const int64_t summed_width = input.summed_width > 0 ? input.summed_width : in;
  const bool overlaps = parallel_.overlap_tp_comm;
  if (overlaps) BesideNext([&] { GatherTokens(in); });
  DataGradient(shape_.tokens, out, in);
  if (input.has_gate) AddDataGradient(shape_.tokens, 1, in);
  if (overlaps && !weights_put_off_) {
    BesideNext([&] { ReducePartialSums(summed_width); });
  } else {
    ReducePartialSums(summed_width);
  }
  if (!overlaps) GatherTokens(in);
  if (input.has_gate) WeightGradient(shape_.tokens, 1, in);
  WeightGradient(shape_.tokens, out, in);
}

void OpWriter::ExpertLinear(int64_t rows, int64_t out, int64_t in, Epilogue epilogue) {
  Add(OpKind::kGroupedMatMul,
      ProductDims(rows, out, in, MatMulLayout::kNT, epilogue, shape_.experts));
}

void OpWriter::ExpertDataGradient(int64_t rows, int64_t out, int64_t in, Epilogue epilogue) {
  Add(OpKind::kGroupedMatMul,
      ProductDims(rows, in, out, MatMulLayout::kNN, epilogue, shape_.experts));
}

void OpWriter::ExpertWeightGradient(int64_t rows, int64_t out, int64_t in) {
  Add(OpKind::kGroupedMatMul,
      ProductDims(out, in, rows, MatMulLayout::kTN, Epilogue::kNone, shape_.experts));
}

void OpWriter::NormForward() {
  Add(model_.norm == NormKind::kLayerNorm ? OpKind::kLayerNormForward : OpKind::kRmsNormForward,
      {shape_.local_tokens, shape_.hidden});
}

void OpWriter::NormBackward(bool adds_residual) {
  Add(model_.norm == NormKind::kLayerNorm ? OpKind::kLayerNormBackward : OpKind::kRmsNormBackward,
      {shape_.local_tokens, shape_.hidden, adds_residual});
}

void OpWriter::RmsNormForward(int64_t rows, int64_t width) {
  Add(OpKind::kRmsNormForward, {rows, width});
}

void OpWriter::RmsNormBackward(int64_t rows, int64_t width) {
  Add(OpKind::kRmsNormBackward, {rows, width});
}

void OpWriter::Sum() { Add(OpKind::kResidualAdd, {shape_.local_tokens, shape_.hidden}); }

void OpWriter::ResidualAdd(bool has_bias) {
  Add(OpKind::kResidualAdd, {shape_.local_tokens, shape_.hidden, has_bias, shape_.drops_hidden});
}

void OpWriter::Dropout() { Add(OpKind::kDropout, {shape_.local_tokens, shape_.hidden}); }

void OpWriter::BiasGrad(bool has_bias, int64_t rows, int64_t width) {
  if (has_bias) Add(OpKind::kBiasGrad, {rows, width});
}

void OpWriter::GatherTokens(int64_t width) {
  if (shape_.sequence_parallel) Collective(OpKind::kAllGather, shape_.tokens * width);
}

void OpWriter::ReducePartialSums(int64_t width) {
  const int64_t elements = shape_.tokens * width;
  if (shape_.sequence_parallel) {
    Collective(OpKind::kReduceScatter, elements);
  } else {
    AllReduce(elements, base::ReduceOp::kSum);
  }
}

void OpWriter::GatherColumns(int64_t width) {
  if (shape_.tensor_parallel_size > 1) Collective(OpKind::kAllGather, shape_.tokens * width);
}

void OpWriter::AllReduce(int64_t elements, base::ReduceOp op) {
  if (shape_.tensor_parallel_size == 1) return;
  Add(OpKind::kAllReduce, {elements, shape_.tensor_parallel_size,
                           static_cast<int64_t>(Axis::kTensor), static_cast<int64_t>(op)});
}

void OpWriter::ExpertCollective(OpKind kind, int64_t elements, int group_size, Axis axis) {
  if (group_size > 1) Add(kind, {elements, group_size, static_cast<int64_t>(axis)});
}

void OpWriter::ContextAllReduce(int64_t elements) {
  if (parallel_.context_parallel_size == 1) return;
  Add(OpKind::kAllReduce,
      {elements, parallel_.context_parallel_size, static_cast<int64_t>(Axis::kContext),
       static_cast<int64_t>(base::ReduceOp::kSum)});
}

void OpWriter::ExchangeRoutedRows(int64_t width) {
  if (parallel_.expert_parallel_size == 1) return;
  Add(OpKind::kAllToAll, {shape_.routed_rows * width, parallel_.expert_parallel_size,
                          static_cast<int64_t>(Axis::kExpert), model_.moe->experts_per_token});
}

void OpWriter::Collective(OpKind kind, int64_t elements) {
  Add(kind, {elements, shape_.tensor_parallel_size, static_cast<int64_t>(Axis::kTensor)});
}

}  // namespace tessera::spec
