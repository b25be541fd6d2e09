#include "cost_model/tensor_overlap.h"

#include <cstddef>

#include "cost_model/overlap.h"

namespace tessera::cost_model {
namespace {

bool IsTensorCollective(const spec::Op& op) {
  return (op.record.kind == base::OpKind::kAllReduce ||
          op.record.kind == base::OpKind::kReduceScatter ||
          op.record.kind == base::OpKind::kAllGather) &&
         op.record.dims[2] == static_cast<int64_t>(spec::Axis::kTensor);
}

bool IsProduct(const spec::Op& op) { return op.record.kind == base::OpKind::kMatMul; }

// Hides collectives of one op list.
class Hider {
 public:
  Hider(const std::vector<spec::Op>& ops, const TensorOverlap& overlap,
        std::vector<double>& seconds)
      : ops_(ops), overlap_(overlap), seconds_(seconds), free_s_(seconds) {}

  // The collectives first..end - 1 stand between two operations.
  void Hide(size_t first, size_t end) {
    const bool has_before = first > 0 && IsProduct(ops_[first - 1]);
    const bool has_after = end < ops_.size() && IsProduct(ops_[end]);
    for (size_t i = first; i < end; ++i) {
      const bool gathers = ops_[i].record.kind == base::OpKind::kAllGather;
      if (ops_[i].beside_next) {
        HideWhole(i, i + 1);
      } else if (overlap_.in_pieces && ops_[i].record.kind != base::OpKind::kAllReduce) {
        if (gathers && has_after) HideInPieces(i, end);
        if (!gathers && has_before) HideInPieces(i, first - 1);
      }
    }
  }

 private:
  void HideWhole(size_t collective, size_t product) {
    seconds_[collective] = ExposedSeconds(seconds_[collective], Take(product), overlap_.slowdown);
  }

  void HideInPieces(size_t collective, size_t product) {
    seconds_[collective] = ExposedBesideProductSeconds(
        seconds_[collective], Take(product), static_cast<int>(ops_[collective].record.dims[1]),
        overlap_.slowdown);
  }

  double Take(size_t product) {
    const double window_s = free_s_[product];
    free_s_[product] = 0;
    return window_s;
  }

  const std::vector<spec::Op>& ops_;
  const TensorOverlap& overlap_;
  std::vector<double>& seconds_;
  std::vector<double> free_s_;  // of each product, with nothing beside it yet
};

}  // namespace

void HideTensorCommunication(const std::vector<spec::Op>& ops, const TensorOverlap& overlap,
                             std::vector<double>& seconds) {
  Hider hider(ops, overlap, seconds);
  for (size_t first = 0; first < ops.size(); ++first) {
    if (!IsTensorCollective(ops[first])) continue;
    size_t end = first + 1;
    while (end < ops.size() && IsTensorCollective(ops[end])) ++end;
    hider.Hide(first, end);
    first = end - 1;
  }
}

}  // namespace tessera::cost_model
