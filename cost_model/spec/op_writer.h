// Writes the operations of a part of the model into an op list: the sizes that a layer's
// description leaves out, and collectives only where a group has more than one rank. Internal to
// the op list.
#pragma once

#include <vector>

#include "cost_model/spec/op_list.h"

namespace tessera::spec {

class OpWriter {
 public:
  OpWriter(const ModelSpec& model, const ParallelSpec& parallel, const LocalShape& shape,
           std::vector<Op>& ops)
      : model_(model), parallel_(parallel), shape_(shape), ops_(ops) {}

  const ModelSpec& model() const { return model_; }
  const ParallelSpec& parallel() const { return parallel_; }
  const LocalShape& shape() const { return shape_; }
  bool is_gated() const { return model_.activation == ActivationKind::kSwiGlu; }
  bool is_recomputed() const { return recomputed_; }
  void set_recomputed(bool recomputed) { recomputed_ = recomputed; }
  // Whether products that give weight gradients run in another pass.
  void set_weights_put_off(bool put_off) { weights_put_off_ = put_off; }

  void Add(base::OpKind kind, const base::OpDims& dims) {
    ops_.push_back({.record = {.kind = kind, .dims = dims}, .recomputed = recomputed_});
  }

  // y[rows, out] = x[rows, in] W[out, in]^T
  void Linear(int64_t rows, int64_t out, int64_t in,
              base::Epilogue epilogue = base::Epilogue::kNone);
  // dx[rows, in] = dy[rows, out] W[out, in]
  void DataGradient(int64_t rows, int64_t out, int64_t in,
                    base::Epilogue epilogue = base::Epilogue::kNone);
  // dx[rows, in] += dy[rows, out] W[out, in]
  void AddDataGradient(int64_t rows, int64_t out, int64_t in);
  // dW[out, in] += dy[rows, out]^T x[rows, in]
  void WeightGradient(int64_t rows, int64_t out, int64_t in);
  // The backward pass of a column-parallel product of tokens gathered under sequence parallelism:
  // the input's gradient, added up over ranks, and the weight's. With
  // overlap_tp_comm the input is gathered beside the first product and the sum runs beside the
  // second (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2).
  struct ColumnParallelInput {
    int64_t summed_width = 0;  // 0: all of it
    bool has_gate = false;     // a product with one more column shares the input
  };
  void ColumnParallelBackward(int64_t out, int64_t in, const ColumnParallelInput& input);
  void ColumnParallelBackward(int64_t out, int64_t in) { ColumnParallelBackward(out, in, {}); }
  // The same three for the experts held here, `rows` in all.
  void ExpertLinear(int64_t rows, int64_t out, int64_t in, base::Epilogue epilogue);
  void ExpertDataGradient(int64_t rows, int64_t out, int64_t in, base::Epilogue epilogue);
  void ExpertWeightGradient(int64_t rows, int64_t out, int64_t in);

  // A norm of the model's kind over the hidden state, on this rank's own tokens.
  void NormForward();
  void NormBackward(bool adds_residual);
  void RmsNormForward(int64_t rows, int64_t width);
  void RmsNormBackward(int64_t rows, int64_t width);
  // Of two tensors; and of a branch, with dropout where hidden states are dropped.
  void Sum();
  void ResidualAdd(bool has_bias);
  // On this rank's own tokens; with BranchGradient of the gradient that enters a branch.
  void Dropout();
  void BranchGradient() {
    if (shape_.drops_hidden) Dropout();
  }
  void BiasGrad(bool has_bias, int64_t rows, int64_t width);

  // Entering a column-parallel product: under sequence parallelism the tokens, `width` wide, are
  // gathered.
  void GatherTokens(int64_t width);
  void GatherTokens() { GatherTokens(shape_.hidden); }
  // Leaving a row-parallel product: partial sums are added up (and tokens scattered).
  void ReducePartialSums(int64_t width);
  void ReducePartialSums() { ReducePartialSums(shape_.hidden); }
  // Leaving a column-parallel product whose next reader wants all columns.
  void GatherColumns(int64_t width);
  void AllReduce(int64_t elements, base::ReduceOp op);
  // Of the expert mesh; nothing where the group is one rank.
  void ExpertCollective(base::OpKind kind, int64_t elements, int group_size, Axis axis);
  // Over the ranks that hold parts of the same sequences; nothing where one rank holds them whole.
  void ContextAllReduce(int64_t elements);
  // Rows to the ranks of their experts, or back.
  void ExchangeRoutedRows(int64_t width);

 private:
  void Collective(base::OpKind kind, int64_t elements);
  // Runs `write`; if that adds an operation, it runs beside the next one.
  template <typename Write>
  void BesideNext(Write&& write) {
    const size_t num_before = ops_.size();
    write();
    if (ops_.size() > num_before) ops_.back().beside_next = true;
  }

  const ModelSpec& model_;
  const ParallelSpec& parallel_;
  const LocalShape& shape_;
  std::vector<Op>& ops_;
  bool recomputed_ = false;
  bool weights_put_off_ = false;
};

inline base::Epilogue BiasEpilogue(bool has_bias) {
  return has_bias ? base::Epilogue::kBias : base::Epilogue::kNone;
}

}  // namespace tessera::spec
