#include "cost_model/tensor_overlap.h"

#include <gtest/gtest.h>

namespace tessera::cost_model {
namespace {

constexpr int64_t kTensor = static_cast<int64_t>(spec::Axis::kTensor);

spec::Op Product(base::MatMulLayout layout) {
  return {.record = {.kind = base::OpKind::kMatMul,
                     .dims = {64, 64, 64, static_cast<int64_t>(layout)}}};
}

// Over four tensor ranks.
spec::Op Collective(base::OpKind kind) {
  return {.record = {.kind = kind, .dims = {64, 4, kTensor}}};
}

const spec::Op kForward = Product(base::MatMulLayout::kNT);
const spec::Op kInputGradient = Product(base::MatMulLayout::kNN);
const spec::Op kWeightGradient = Product(base::MatMulLayout::kTN);
const spec::Op kAllReduce = Collective(base::OpKind::kAllReduce);
const spec::Op kReduceScatter = Collective(base::OpKind::kReduceScatter);
const spec::Op kAllGather = Collective(base::OpKind::kAllGather);

using Seconds = std::vector<double>;

Seconds Hidden(const std::vector<spec::Op>& ops, const TensorOverlap& overlap, Seconds seconds) {
  HideTensorCommunication(ops, overlap, seconds);
  return seconds;
}

spec::Op BesideNext(spec::Op op) {
  op.beside_next = true;
  return op;
}

TEST(TensorOverlapTest, WithoutOptionsEverythingIsExposed) {
  EXPECT_EQ(Hidden({kInputGradient, kAllReduce, kWeightGradient}, {}, {3, 2, 3}),
            (Seconds{3, 2, 3}));
}

TEST(TensorOverlapTest, ACollectiveHidesBehindTheProductThatTheOpListPutsBesideIt) {
  const spec::Op sum = BesideNext(kAllReduce);
  EXPECT_EQ(Hidden({kInputGradient, sum, kWeightGradient}, {}, {3, 2, 3}), (Seconds{3, 0, 3}));
  EXPECT_EQ(Hidden({kInputGradient, sum, kWeightGradient}, {}, {3, 5, 3}), (Seconds{3, 2, 3}));
  // Under sequence parallelism the input is gathered again meanwhile, beside the other product.
  EXPECT_EQ(
      Hidden({BesideNext(kAllGather), kInputGradient, BesideNext(kReduceScatter), kWeightGradient},
             {}, {2, 3, 2, 3}),
      (Seconds{0, 3, 0, 3}));
}

// Four pieces, of which three have the product beside them.
TEST(TensorOverlapTest, PiecesOfACollectiveRunBesideTheProductThatUsesThem) {
  const TensorOverlap overlap{.in_pieces = true};
  EXPECT_EQ(Hidden({kAllGather, kForward, kReduceScatter}, overlap, {4, 3, 0}), (Seconds{1, 3, 0}));
  EXPECT_EQ(Hidden({kForward, kReduceScatter}, overlap, {9, 4}), (Seconds{9, 1}));
  // Without sequence parallelism there is nothing to cut.
  EXPECT_EQ(Hidden({kForward, kAllReduce}, overlap, {9, 4}), (Seconds{9, 4}));
}

TEST(TensorOverlapTest, AProductHidesOneCollective) {
  const TensorOverlap overlap{.in_pieces = true};
  EXPECT_EQ(Hidden({kAllGather, kForward, kReduceScatter}, overlap, {4, 9, 4}), (Seconds{1, 9, 4}));
}

TEST(TensorOverlapTest, CollectivesOfOtherAxesStay) {
  spec::Op other = kReduceScatter;
  other.record.dims[2] = static_cast<int64_t>(spec::Axis::kExpert);
  EXPECT_EQ(Hidden({kForward, other}, {.in_pieces = true}, {9, 4}), (Seconds{9, 4}));
}

}  // namespace
}  // namespace tessera::cost_model
