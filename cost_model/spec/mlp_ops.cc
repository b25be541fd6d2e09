#include "cost_model/spec/mlp_ops.h"

namespace tessera::spec {
namespace {

using base::Epilogue;
using base::OpKind;

// Width of the first MLP product: gate and up together where there is a gate.
int64_t FirstWidth(const OpWriter& write, int64_t ffn) { return write.is_gated() ? 2 * ffn : ffn; }

// A dense MLP or a shared expert, `ffn` wide here.
struct MlpForm {
  int64_t ffn = 0;
  bool has_bias = false;
  bool has_gate = false;  // its result is weighted by a sigmoid of the token
};
MlpForm SharedExpert(const OpWriter& write) {
  return {.ffn = write.shape().shared_ffn, .has_gate = write.model().moe->shared_expert_gate};
}
MlpForm DenseMlp(const OpWriter& write) {
  return {.ffn = write.shape().ffn, .has_bias = write.model().mlp_bias};
}

// The sigmoid is a softmax over a product and zero: a router of two experts.
constexpr int64_t kGateColumns = 2;

// From a rank's own tokens to the activation.
void WriteUp(OpWriter& write, const MlpForm& mlp) {
  const LocalShape& shape = write.shape();
  write.GatherTokens();
  if (mlp.has_gate) {
    write.Add(OpKind::kFill, {shape.tokens * kGateColumns});
    write.Linear(shape.tokens, 1, shape.hidden);
    write.Add(OpKind::kRouterForward, {shape.tokens, kGateColumns, 1});
    write.Add(OpKind::kTokenPermute, {shape.tokens, 1, shape.tokens * kGateColumns});
  }
  if (write.is_gated()) {
    write.Linear(shape.tokens, 2 * mlp.ffn, shape.hidden, BiasEpilogue(mlp.has_bias));
    write.Add(OpKind::kSwiGluForward, {shape.tokens, mlp.ffn, mlp.has_gate});
  } else {
    write.Linear(shape.tokens, mlp.ffn, shape.hidden, Epilogue::kBiasGelu);
  }
}

// From the output's gradient on each rank's own tokens to the input's.
void WriteMlpHalfBackward(OpWriter& write, const MlpForm& mlp) {
  const LocalShape& shape = write.shape();
  const int64_t first_width = FirstWidth(write, mlp.ffn);
  write.BiasGrad(mlp.has_bias, shape.local_tokens, shape.hidden);
  write.GatherTokens();
  write.DataGradient(shape.tokens, shape.hidden, mlp.ffn,
                     write.is_gated() ? Epilogue::kNone : Epilogue::kGeluGrad);
  write.WeightGradient(shape.tokens, shape.hidden, mlp.ffn);
  if (write.is_gated()) write.Add(OpKind::kSwiGluBackward, {shape.tokens, mlp.ffn, mlp.has_gate});
  if (mlp.has_gate) write.Add(OpKind::kRouterBackward, {shape.tokens, kGateColumns, 1});
  write.BiasGrad(mlp.has_bias, shape.tokens, first_width);
  write.ColumnParallelBackward(first_width, shape.hidden, {.has_gate = mlp.has_gate});
}

// What travels with a routed row: its token's hidden state, one value of each choice of a token.
struct RowKind {
  int64_t width = 1;
  int64_t sources = 0;  // tokens, or choices
};
RowKind TokenRows(const LocalShape& shape) { return {shape.hidden, shape.local_tokens}; }
RowKind ValueRows(const OpWriter& write) {
  return {1, write.shape().local_tokens * write.model().moe->experts_per_token};
}

// Routed rows to the ranks that hold their experts, and there into the experts' order.
void WriteDispatch(OpWriter& write, const RowKind& rows) {
  const LocalShape& shape = write.shape();
  write.Add(OpKind::kTokenPermute, {shape.routed_rows, rows.width, rows.sources});
  write.ExchangeRoutedRows(rows.width);
  write.ExpertCollective(OpKind::kAllGather, shape.expert_rows * rows.width,
                         ExpertTensorSize(write.parallel()), Axis::kExpertTensor);
  if (shape.sorts_by_expert) {
    write.Add(OpKind::kTokenPermute, {shape.expert_rows, rows.width, shape.expert_rows});
  }
}

// And back; a token is the sum of its rows.
void WriteCombine(OpWriter& write, const RowKind& rows) {
  const LocalShape& shape = write.shape();
  if (shape.sorts_by_expert) {
    write.Add(OpKind::kTokenUnpermute, {shape.expert_rows, rows.width, shape.expert_rows});
  }
  write.ExpertCollective(OpKind::kReduceScatter, shape.expert_rows * rows.width,
                         ExpertTensorSize(write.parallel()), Axis::kExpertTensor);
  write.ExchangeRoutedRows(rows.width);
  write.Add(OpKind::kTokenUnpermute, {shape.routed_rows, rows.width, rows.sources});
}

// The choice is copied to the host, which works out where each row goes. Without a capacity, ranks
// tell each other how many rows they send to each expert; what is recomputed goes as it went.
void WriteRowCounts(OpWriter& write) {
  const MoeSpec& moe = *write.model().moe;
  if (moe.capacity_factor > 0 || write.is_recomputed()) return;
  const int ep = write.parallel().expert_parallel_size;
  const int etp = ExpertTensorSize(write.parallel());
  write.ExpertCollective(OpKind::kAllGather, moe.num_experts * ep, ep, Axis::kExpert);
  write.ExpertCollective(OpKind::kAllGather, moe.num_experts * ep * etp, etp, Axis::kExpertTensor);
}

// How often each sequence chooses each expert, over the ranks that hold a part of it: what the loss
// that balances the load depends on.
void WriteExpertCounts(OpWriter& write) {
  const MoeSpec& moe = *write.model().moe;
  const LocalShape& shape = write.shape();
  if (moe.auxiliary_loss_coefficient == 0) return;
  write.Add(OpKind::kExpertCount, {shape.local_tokens, moe.num_experts, moe.experts_per_token});
  const int64_t elements = shape.batch * moe.num_experts;
  if (shape.sequence_parallel) write.AllReduce(elements, base::ReduceOp::kSum);
  write.ContextAllReduce(elements);
}

// A row is weighted by its router probability between the expert's two products.
void WriteExpertsUp(OpWriter& write) {
  const ModelSpec& model = write.model();
  const LocalShape& shape = write.shape();
  write.ExpertLinear(shape.expert_rows, FirstWidth(write, shape.expert_ffn), shape.hidden,
                     BiasEpilogue(model.mlp_bias));
  if (write.is_gated()) {
    write.Add(OpKind::kSwiGluForward, {shape.expert_rows, shape.expert_ffn, /*weighted=*/1});
  } else {
    write.Add(OpKind::kWeightedGeluForward, {shape.expert_rows, shape.expert_ffn});
  }
}

void WriteExpertsBackward(OpWriter& write) {
  const ModelSpec& model = write.model();
  const LocalShape& shape = write.shape();
  const int64_t first_width = FirstWidth(write, shape.expert_ffn);
  write.BiasGrad(model.mlp_bias, shape.expert_rows, shape.hidden);
  write.ExpertDataGradient(shape.expert_rows, shape.hidden, shape.expert_ffn, Epilogue::kNone);
  write.ExpertWeightGradient(shape.expert_rows, shape.hidden, shape.expert_ffn);
  if (write.is_gated()) {
    write.Add(OpKind::kSwiGluBackward, {shape.expert_rows, shape.expert_ffn, /*weighted=*/1});
  } else {
    write.Add(OpKind::kWeightedGeluBackward, {shape.expert_rows, shape.expert_ffn});
  }
  write.BiasGrad(model.mlp_bias, shape.expert_rows, first_width);
  write.ExpertDataGradient(shape.expert_rows, first_width, shape.hidden, Epilogue::kNone);
  write.ExpertWeightGradient(shape.expert_rows, first_width, shape.hidden);
}

void WriteMoeUpToDown(OpWriter& write) {
  const MoeSpec& moe = *write.model().moe;
  const LocalShape& shape = write.shape();
  write.Linear(shape.local_tokens, moe.num_experts, shape.hidden);
  write.Add(OpKind::kRouterForward, {shape.local_tokens, moe.num_experts, moe.experts_per_token});
  WriteExpertCounts(write);
  WriteRowCounts(write);
  WriteDispatch(write, TokenRows(shape));
  WriteDispatch(write, ValueRows(write));
  WriteExpertsUp(write);
  if (shape.shared_ffn > 0) WriteUp(write, SharedExpert(write));
}

void WriteMoeDown(OpWriter& write) {
  const LocalShape& shape = write.shape();
  write.ExpertLinear(shape.expert_rows, shape.hidden, shape.expert_ffn,
                     BiasEpilogue(write.model().mlp_bias));
  WriteCombine(write, TokenRows(shape));
  if (shape.shared_ffn > 0) {
    write.Linear(shape.tokens, shape.hidden, shape.shared_ffn);
    write.ReducePartialSums();
    write.Sum();  // onto the routed experts'
  }
  write.ResidualAdd(/*has_bias=*/false);
}

void WriteMoeBackward(OpWriter& write) {
  const MoeSpec& moe = *write.model().moe;
  const LocalShape& shape = write.shape();
  if (shape.shared_ffn > 0) WriteMlpHalfBackward(write, SharedExpert(write));
  WriteDispatch(write, TokenRows(shape));  // the output's gradient: transpose of the combination
  WriteExpertsBackward(write);
  WriteCombine(write, TokenRows(shape));  // the input's gradient
  WriteCombine(write, ValueRows(write));  // the router weights' gradient
  write.Add(OpKind::kRouterBackward, {shape.local_tokens, moe.num_experts, moe.experts_per_token});
  write.DataGradient(shape.local_tokens, moe.num_experts, shape.hidden);
  write.WeightGradient(shape.local_tokens, moe.num_experts, shape.hidden);
  // Gradients of the norm's output meet: router and experts, and the shared expert.
  write.Sum();
  if (shape.shared_ffn > 0) write.Sum();
}

}  // namespace

void WriteMlpUpToDown(OpWriter& write, const LayerForm& form) {
  write.NormForward();
  if (form.has_experts) {
    WriteMoeUpToDown(write);
    return;
  }
  WriteUp(write, DenseMlp(write));
}

void WriteMlpDown(OpWriter& write, const LayerForm& form) {
  if (form.has_experts) {
    WriteMoeDown(write);
    return;
  }
  const LocalShape& shape = write.shape();
  write.Linear(shape.tokens, shape.hidden, shape.ffn);
  write.ReducePartialSums();
  write.ResidualAdd(write.model().mlp_bias);
}

void WriteMlpBackward(OpWriter& write, const LayerForm& form) {
  write.BranchGradient();
  if (form.has_experts) {
    WriteMoeBackward(write);
  } else {
    WriteMlpHalfBackward(write, DenseMlp(write));
  }
  write.NormBackward(/*adds_residual=*/true);
}

}  // namespace tessera::spec
