#include "cost_model/spec/mlp_ops.h"

namespace tessera::spec {
namespace {

using base::Epilogue;
using base::OpKind;

// Width of the first MLP product: gate and up together where there is a gate.
int64_t FirstWidth(const OpWriter& write, int64_t ffn) { return write.is_gated() ? 2 * ffn : ffn; }

// A dense MLP or a shared expert, `ffn` wide here, from gathered tokens to its activation.
void WriteUp(OpWriter& write, int64_t ffn, bool has_bias) {
  const LocalShape& shape = write.shape();
  if (write.is_gated()) {
    write.Linear(shape.tokens, 2 * ffn, shape.hidden, BiasEpilogue(has_bias));
    write.Add(OpKind::kSwiGluForward, {shape.tokens, ffn});
  } else {
    write.Linear(shape.tokens, ffn, shape.hidden, Epilogue::kBiasGelu);
  }
}

// From the output's gradient on each rank's own tokens to the input's.
void WriteDenseBackward(OpWriter& write, int64_t ffn, bool has_bias) {
  const LocalShape& shape = write.shape();
  const int64_t first_width = FirstWidth(write, ffn);
  write.BiasGrad(has_bias, shape.local_tokens, shape.hidden);
  write.GatherTokens();
  write.DataGradient(shape.tokens, shape.hidden, ffn,
                     write.is_gated() ? Epilogue::kNone : Epilogue::kGeluGrad);
  write.WeightGradient(shape.tokens, shape.hidden, ffn);
  if (write.is_gated()) write.Add(OpKind::kSwiGluBackward, {shape.tokens, ffn});
  write.BiasGrad(has_bias, shape.tokens, first_width);
  write.ColumnParallelBackward(first_width, shape.hidden);
}

// Routed rows to the ranks that hold their experts, and there into the experts' order.
void WriteDispatch(OpWriter& write) {
  const LocalShape& shape = write.shape();
  write.Add(OpKind::kTokenPermute, {shape.routed_rows, shape.hidden, shape.local_tokens});
  write.ExchangeRoutedRows();
  write.ExpertCollective(OpKind::kAllGather, shape.expert_rows * shape.hidden,
                         ExpertTensorSize(write.parallel()), Axis::kExpertTensor);
  if (shape.sorts_by_expert) {
    write.Add(OpKind::kTokenPermute, {shape.expert_rows, shape.hidden, shape.expert_rows});
  }
}

// And back; a token is the sum of its rows.
void WriteCombine(OpWriter& write) {
  const LocalShape& shape = write.shape();
  if (shape.sorts_by_expert) {
    write.Add(OpKind::kTokenUnpermute, {shape.expert_rows, shape.hidden, shape.expert_rows});
  }
  write.ExpertCollective(OpKind::kReduceScatter, shape.expert_rows * shape.hidden,
                         ExpertTensorSize(write.parallel()), Axis::kExpertTensor);
  write.ExchangeRoutedRows();
  write.Add(OpKind::kTokenUnpermute, {shape.routed_rows, shape.hidden, shape.local_tokens});
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
  write.Add(OpKind::kExpertCount, {shape.local_tokens, moe.num_experts, moe.experts_per_token});
  WriteDispatch(write);
  WriteExpertsUp(write);
  if (shape.shared_ffn == 0) return;
  write.GatherTokens();
  WriteUp(write, shape.shared_ffn, /*has_bias=*/false);
}

void WriteMoeDown(OpWriter& write) {
  const LocalShape& shape = write.shape();
  write.ExpertLinear(shape.expert_rows, shape.hidden, shape.expert_ffn,
                     BiasEpilogue(write.model().mlp_bias));
  WriteCombine(write);
  if (shape.shared_ffn > 0) {
    if (write.model().moe->shared_expert_gate) {
      write.Linear(shape.local_tokens, 1, shape.hidden);
    }
    write.Linear(shape.tokens, shape.hidden, shape.shared_ffn);
    write.ReducePartialSums();
    write.ResidualAdd(/*has_bias=*/false);  // onto the routed experts' sum
  }
  write.ResidualAdd(/*has_bias=*/false);
}

void WriteMoeBackward(OpWriter& write) {
  const MoeSpec& moe = *write.model().moe;
  const LocalShape& shape = write.shape();
  if (shape.shared_ffn > 0) {
    WriteDenseBackward(write, shape.shared_ffn, /*has_bias=*/false);
    if (moe.shared_expert_gate) {
      write.DataGradient(shape.local_tokens, 1, shape.hidden);
      write.WeightGradient(shape.local_tokens, 1, shape.hidden);
    }
  }
  WriteDispatch(write);  // of the output's gradient: the transpose of the combination
  WriteExpertsBackward(write);
  WriteCombine(write);  // of the input's gradient
  write.Add(OpKind::kRouterBackward, {shape.local_tokens, moe.num_experts, moe.experts_per_token});
  write.DataGradient(shape.local_tokens, moe.num_experts, shape.hidden);
  write.WeightGradient(shape.local_tokens, moe.num_experts, shape.hidden);
  // Gradients of the norm's output meet: router and experts, and the shared expert.
  write.ResidualAdd(/*has_bias=*/false);
  if (shape.shared_ffn > 0) write.ResidualAdd(/*has_bias=*/false);
}

}  // namespace

void WriteMlpUpToDown(OpWriter& write, const LayerForm& form) {
  write.NormForward();
  if (form.has_experts) {
    WriteMoeUpToDown(write);
    return;
  }
  write.GatherTokens();
  WriteUp(write, write.shape().ffn, write.model().mlp_bias);
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
  if (form.has_experts) {
    WriteMoeBackward(write);
  } else {
    WriteDenseBackward(write, write.shape().ffn, write.model().mlp_bias);
  }
  write.NormBackward(/*adds_residual=*/true);
}

}  // namespace tessera::spec
