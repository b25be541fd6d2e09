#include "engine/layers/token_gate.h"

#include <vector>

namespace tessera::engine {
namespace {

constexpr int64_t kColumns = 2;

}  // namespace

void TokenGate::Forward(kernels::ConstArray tokens, TokenGateStash& stash) const {
  const int64_t rows = context_.shape.tokens;
  stash.probabilities = context_.Statistics(rows * kColumns);
  stash.log_sum_exp = context_.Statistics(rows);
  stash.weights = context_.Statistics(rows);
  const kernels::Array logits = stash.probabilities.array();
  context_.backend.Fill(logits, rows * kColumns, 0.0F);
  context_.backend.MatMul({.a = tokens,
                           .b = weight_.weight,
                           .c = logits,
                           .m = rows,
                           .n = 1,
                           .k = context_.shape.hidden,
                           .lda = context_.shape.hidden,
                           .ldb = context_.shape.hidden,
                           .ldc = kColumns,
                           .layout = base::MatMulLayout::kNT});
  const Buffer chosen = context_.pool.Allocate(MemoryKind::kWorkspace, base::DType::kInt32, rows);
  context_.backend.RouterForward({.logits = logits,
                                  .probabilities = stash.probabilities.array(),
                                  .log_sum_exp = stash.log_sum_exp.array(),
                                  .chosen = chosen.array(),
                                  .weight = stash.weights.array(),
                                  .num_rows = rows,
                                  .num_experts = kColumns,
                                  .num_chosen = 1,
                                  .normalize = false});
  // Not of the larger logit, but of the first one.
  std::vector<int32_t> first_column;
  for (int64_t row = 0; row < rows; ++row) {
    first_column.push_back(static_cast<int32_t>(row * kColumns));
  }
  context_.backend.CopyToDevice(chosen.data(), first_column.data(),
                                first_column.size() * sizeof(int32_t));
  context_.backend.TokenPermute({.x = stash.probabilities.array(),
                                 .source_row = chosen.array(),
                                 .out = stash.weights.array(),
                                 .num_rows = rows,
                                 .width = 1,
                                 .num_tokens = rows * kColumns});
}

Buffer TokenGate::Backward(const TokenGateStash& stash, kernels::ConstArray dweights) const {
  const int64_t rows = context_.shape.tokens;
  const std::vector<int32_t> first_expert(static_cast<size_t>(rows), 0);
  const Buffer chosen = context_.pool.Allocate(MemoryKind::kWorkspace, base::DType::kInt32, rows);
  context_.backend.CopyToDevice(chosen.data(), first_expert.data(),
                                first_expert.size() * sizeof(int32_t));
  Buffer dlogits = context_.Workspace(rows * kColumns);
  context_.backend.RouterBackward({.probabilities = stash.probabilities.array(),
                                   .log_sum_exp = stash.log_sum_exp.array(),
                                   .chosen = chosen.array(),
                                   .weight = stash.weights.array(),
                                   .dweight = dweights,
                                   .dlogits = dlogits.array(),
                                   .num_rows = rows,
                                   .num_experts = kColumns,
                                   .num_chosen = 1,
                                   .sequence = context_.shape.sequence,
                                   .sequence_tokens = context_.shape.sequence,
                                   .normalize = false});
  return dlogits;
}

void TokenGate::AddDataGradient(const Buffer& dlogits, kernels::Array dtokens) const {
  context_.backend.MatMul({.a = dlogits.array(),
                           .b = weight_.weight,
                           .c = dtokens,
                           .m = context_.shape.tokens,
                           .n = context_.shape.hidden,
                           .k = 1,
                           .lda = kColumns,
                           .ldb = context_.shape.hidden,
                           .ldc = context_.shape.hidden,
                           .layout = base::MatMulLayout::kNN,
                           .accumulate = true});
}

void TokenGate::WeightGradient(const Buffer& dlogits, kernels::ConstArray tokens) const {
  context_.backend.MatMul({.a = dlogits.array(),
                           .b = tokens,
                           .c = weight_.grad,
                           .m = 1,
                           .n = context_.shape.hidden,
                           .k = context_.shape.tokens,
                           .lda = kColumns,
                           .ldb = context_.shape.hidden,
                           .ldc = context_.shape.hidden,
                           .layout = base::MatMulLayout::kTN,
                           .accumulate = true});
}

}  // namespace tessera::engine
