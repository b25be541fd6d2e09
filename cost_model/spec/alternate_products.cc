#include "cost_model/spec/alternate_products.h"

namespace tessera::spec {
namespace {

using base::OpKind;

constexpr int kColumns = 1;  // of the dimensions of a product

// Attention and what a context-parallel ring adds to it.
bool IsOfAttention(OpKind kind) {
  switch (kind) {
    case OpKind::kAttentionForward:
    case OpKind::kSend:
    case OpKind::kRecv:
    case OpKind::kCopyRows:
    case OpKind::kCast:
    case OpKind::kLogSumExpMerge:
      return true;
    default:
      return false;
  }
}

// Takes the recomputed products of a layer one after the other.
class ProductFilter {
 public:
  ProductFilter(const ModelSpec& model, const LayerForm& form, const LocalShape& shape)
      : model_(model), form_(form), shape_(shape) {}

  // Whether the product runs again; leaves it the columns that do.
  bool RunsAgain(base::OpRecord& product) {
    switch (num_products_++) {
      case 0:  // queries, keys and values
        if (!model_.mla) product.dims[kColumns] = shape_.kv_heads * shape_.head_dim;
        return true;
      case 1:  // attention's output
        return model_.mla.has_value() || !shape_.sequence_parallel;
      case 2:  // gate and up, or the first of the MLP
        if (form_.has_experts || model_.mla) return true;
        product.dims[kColumns] = shape_.ffn;
        return model_.activation == ActivationKind::kSwiGlu;
      default:
        return true;
    }
  }

 private:
  const ModelSpec& model_;
  const LayerForm& form_;
  const LocalShape& shape_;
  int num_products_ = 0;
};

}  // namespace

void AppendLayerBackwardByProducts(const ModelSpec& model, const ParallelSpec& parallel,
                                   const LayerForm& form, const LocalShape& shape,
                                   std::vector<Op>& ops) {
  ParallelSpec full = parallel;
  full.recompute = Recompute::kFull;
  std::vector<Op> all;
  AppendLayerBackward(model, full, form, shape, all);
  ProductFilter products(model, form, shape);
  for (Op& op : all) {
    if (op.recomputed) {
      const OpKind kind = op.record.kind;
      if (IsOfAttention(kind) || kind == OpKind::kReduceScatter) continue;
      if (kind == OpKind::kMatMul && !products.RunsAgain(op.record)) continue;
    }
    ops.push_back(op);
  }
}

}  // namespace tessera::spec
