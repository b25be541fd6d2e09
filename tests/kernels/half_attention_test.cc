#include "tests/kernels/half_test.h"
#include "tests/kernels/test_shapes.h"

namespace tessera::kernels::testing {
namespace {

using base::AttentionStats;
using reference::AttentionShape;

// The last has more keys than one product takes (240 of 128 wide).
std::vector<AttentionShape> HalfAttentionShapes() {
  return {MakeAttentionShape(1, 1, 1, 1, 12), MakeAttentionShape(2, 33, 3, 3, 16),
          MakeAttentionShape(2, 70, 4, 2, 7), MakeAttentionShape(1, 260, 1, 1, 128)};
}

class HalfAttentionTest : public HalfTest {
 protected:
  static constexpr int64_t kGap = 5;

  // Columns [first, first + width) of a matrix, dense.
  static Doubles Columns(const Doubles& values, int64_t stride, int64_t first, int64_t width) {
    Doubles columns;
    for (size_t row = 0; row < values.size() / stride; ++row) {
      const auto begin = values.begin() + static_cast<int64_t>(row) * stride + first;
      columns.insert(columns.end(), begin, begin + width);
    }
    return columns;
  }

  // q, k and v lie side by side in one array, and so do their gradients. Probabilities have the
  // compute type, log-sum-exps are fp32.
  void ExpectAttention(const AttentionShape& shape, AttentionStats kind) {
    const std::string what =
        base::Concat("sequence ", shape.sequence, " heads ", shape.num_heads, "/",
                     shape.num_kv_heads, " stats ", static_cast<int>(kind));
    const bool keeps_all = kind == AttentionStats::kProbabilities;
    const int64_t query = shape.QueryWidth(), key = shape.KeyWidth();
    const int64_t stride = query + 2 * key + kGap, out_stride = query + kGap;
    const Doubles qkv = Random(shape.NumRows() * stride, 1, -2, 2);
    const Doubles dout = Random(shape.NumRows() * out_stride, 2);
    const Doubles q = Columns(qkv, stride, 0, query), k = Columns(qkv, stride, query, key);
    const Doubles v = Columns(qkv, stride, query + key, key);
    const int64_t num_stats =
        shape.batch * shape.num_heads * shape.sequence * (keeps_all ? shape.sequence : 1);
    const TypedArray device_qkv = Half(qkv), device_dout = Half(dout);
    const TypedArray out = UnsetHalf(shape.NumRows() * out_stride);
    const TypedArray stats = keeps_all ? UnsetHalf(num_stats) : UnsetFloat(num_stats);
    const TypedArray dqkv = UnsetHalf(shape.NumRows() * stride);
    AttentionForwardArgs forward = {.q = device_qkv,
                                    .k = device_qkv.At(query),
                                    .v = device_qkv.At(query + key),
                                    .out = out,
                                    .stats = stats};
    AttentionBackwardArgs backward = {.dout = device_dout,
                                      .q = device_qkv,
                                      .k = device_qkv.At(query),
                                      .v = device_qkv.At(query + key),
                                      .out = out,
                                      .stats = stats,
                                      .dq = dqkv,
                                      .dk = dqkv.At(query),
                                      .dv = dqkv.At(query + key),
                                      .dqkv_stride = stride};
    const auto set_shape = [&](auto& args) {
      args.stats_kind = kind;
      args.batch = shape.batch;
      args.sequence = shape.sequence;
      args.num_heads = shape.num_heads;
      args.num_kv_heads = shape.num_kv_heads;
      args.head_dim = shape.head_dim;
      args.qkv_stride = stride;
      args.out_stride = out_stride;
      args.scale = static_cast<float>(shape.scale);
    };
    set_shape(forward);
    set_shape(backward);
    backend().AttentionForward(forward);
    backend().AttentionBackward(backward);
    const auto expected = reference::Attention(shape, q, k, v);
    const auto grads =
        reference::AttentionBackward(shape, Columns(dout, out_stride, 0, query), q, k, v);
    ExpectClose(Columns(out.Values(), out_stride, 0, query), expected.out, what + " out");
    ExpectClose(stats.Values(), keeps_all ? expected.probabilities : expected.log_sum_exp,
                what + " stats");
    const Doubles found = dqkv.Values();
    ExpectClose(Columns(found, stride, query + key, key), grads.dv, what + " dv");
    if (shape.sequence == 1) return;  // the gradient of a single score is 0
    ExpectClose(Columns(found, stride, 0, query), grads.dq, what + " dq");
    ExpectClose(Columns(found, stride, query, key), grads.dk, what + " dk");
  }
};

TEST_P(HalfAttentionTest, ForwardAndBackwardMatchTheReference) {
  for (const AttentionShape& shape : HalfAttentionShapes()) {
    ExpectAttention(shape, AttentionStats::kLogSumExp);
    ExpectAttention(shape, AttentionStats::kProbabilities);
  }
}

// What ring attention does: log-sum-exps fp32, the sum so far in fp32 or in the compute type.
TEST_P(HalfAttentionTest, PartsAreMergedByTheirLogSumExps) {
  constexpr int64_t kBatch = 2, kSequence = 9, kHeads = 3, kHeadDim = 7;
  constexpr int64_t kNumStats = kBatch * kHeads * kSequence;
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  for (const DType out_dtype : {DType::kFloat32, dtype()}) {
    const Doubles block_out = Random(kNumStats * kHeadDim, 1),
                  own = Random(kNumStats * kHeadDim, 2);
    Doubles block_stats = RandomFloats(kNumStats, 3, -3, 3), stats = RandomFloats(kNumStats, 4);
    block_stats[3] = stats[5] = minus_infinity;
    Doubles expected = own, expected_stats(kNumStats);
    for (int64_t row = 0; row < kNumStats; ++row) {
      const double a = std::exp(stats[row]), b = std::exp(block_stats[row]);
      expected_stats[row] = std::log(a + b);
      const int64_t token = row / kSequence / kHeads * kSequence + row % kSequence;
      const int64_t first = (token * kHeads + row / kSequence % kHeads) * kHeadDim;
      for (int64_t i = first; i < first + kHeadDim; ++i) {
        expected[i] = (a * own[i] + b * block_out[i]) / (a + b);
      }
    }
    const TypedArray block = Half(block_out), device_block_stats = Float(block_stats);
    const TypedArray out(backend(), out_dtype, own), device_stats = Float(stats);
    backend().LogSumExpMerge({.block_out = block,
                              .block_stats = device_block_stats,
                              .out = out,
                              .stats = device_stats,
                              .batch = kBatch,
                              .sequence = kSequence,
                              .num_heads = kHeads,
                              .head_dim = kHeadDim});
    ExpectClose(out.Values(), expected, "out");
    ExpectClose(device_stats.Values(), expected_stats, "stats");
  }
}

TESSERA_HALF_SUITE(HalfAttentionTest);

}  // namespace
}  // namespace tessera::kernels::testing
