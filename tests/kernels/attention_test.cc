#include "tests/kernels/device_array.h"
#include "tests/kernels/test_shapes.h"

namespace tessera::kernels::testing {
namespace {

using base::AttentionStats;
using reference::AttentionShape;

// Scores and their softmax are float sums of a few hundred terms of order one; the gradients add
// such products once more.
constexpr double kForwardTolerance = 1e-5;
constexpr double kBackwardTolerance = 3e-5;

std::vector<AttentionShape> AttentionShapes() {
  return {MakeAttentionShape(1, 1, 1, 1, 12),   MakeAttentionShape(2, 33, 3, 3, 16),
          MakeAttentionShape(1, 130, 2, 1, 64), MakeAttentionShape(2, 130, 4, 2, 12),
          MakeAttentionShape(1, 64, 6, 2, 128), MakeAttentionShape(1, 200, 1, 1, 7)};
}

// q, k and v as columns of one packed array, as the fused projection writes them.
class PackedInputs {
 public:
  explicit PackedInputs(const AttentionShape& attention_shape)
      : shape(attention_shape),
        stride(shape.QueryWidth() + 2 * shape.KeyWidth() + kGap),
        qkv(RandomFloats(shape.NumRows() * stride, 1, -2, 2)),
        dout(RandomFloats(shape.NumRows() * OutStride(), 2)) {}

  int64_t OutStride() const { return shape.QueryWidth() + kGap; }
  int64_t KeyColumn() const { return shape.QueryWidth(); }
  int64_t ValueColumn() const { return shape.QueryWidth() + shape.KeyWidth(); }
  Doubles Q() const { return ToDoubles(Columns(qkv, stride, 0, shape.QueryWidth())); }
  Doubles K() const { return ToDoubles(Columns(qkv, stride, KeyColumn(), shape.KeyWidth())); }
  Doubles V() const { return ToDoubles(Columns(qkv, stride, ValueColumn(), shape.KeyWidth())); }
  Doubles DOut() const { return ToDoubles(Columns(dout, OutStride(), 0, shape.QueryWidth())); }

  static constexpr int64_t kGap = 5;
  AttentionShape shape;
  int64_t stride;
  Floats qkv, dout;
};

int64_t StatsSize(const AttentionShape& shape, AttentionStats kind) {
  const int64_t num_rows = shape.batch * shape.num_heads * shape.sequence;
  return kind == AttentionStats::kProbabilities ? num_rows * shape.sequence : num_rows;
}

std::string Describe(const AttentionShape& shape, AttentionStats kind) {
  return base::Concat("batch ", shape.batch, " sequence ", shape.sequence, " heads ",
                      shape.num_heads, "/", shape.num_kv_heads, " head_dim ", shape.head_dim,
                      " stats ", static_cast<int>(kind));
}

struct Output {
  Floats out, stats, dq, dk, dv;
};

Output RunAttention(Backend& backend, const PackedInputs& in, AttentionStats kind) {
  const AttentionShape& shape = in.shape;
  const DeviceFloats qkv(backend, in.qkv), dout(backend, in.dout);
  const DeviceFloats out = Unset(backend, shape.NumRows() * in.OutStride());
  const DeviceFloats stats = Unset(backend, StatsSize(shape, kind));
  const DeviceFloats dqkv = Unset(backend, shape.NumRows() * in.stride);
  const auto scale = static_cast<float>(shape.scale);
  backend.AttentionForward({.q = qkv.At(0),
                            .k = qkv.At(in.KeyColumn()),
                            .v = qkv.At(in.ValueColumn()),
                            .out = out,
                            .stats = stats,
                            .stats_kind = kind,
                            .batch = shape.batch,
                            .sequence = shape.sequence,
                            .num_heads = shape.num_heads,
                            .num_kv_heads = shape.num_kv_heads,
                            .head_dim = shape.head_dim,
                            .qkv_stride = in.stride,
                            .out_stride = in.OutStride(),
                            .scale = scale});
  backend.AttentionBackward({.dout = dout,
                             .q = qkv.At(0),
                             .k = qkv.At(in.KeyColumn()),
                             .v = qkv.At(in.ValueColumn()),
                             .out = out,
                             .stats = stats,
                             .dq = dqkv.At(0),
                             .dk = dqkv.At(in.KeyColumn()),
                             .dv = dqkv.At(in.ValueColumn()),
                             .stats_kind = kind,
                             .batch = shape.batch,
                             .sequence = shape.sequence,
                             .num_heads = shape.num_heads,
                             .num_kv_heads = shape.num_kv_heads,
                             .head_dim = shape.head_dim,
                             .qkv_stride = in.stride,
                             .out_stride = in.OutStride(),
                             .dqkv_stride = in.stride,
                             .scale = scale});
  const Floats grads = dqkv.Values();
  return {Columns(out.Values(), in.OutStride(), 0, shape.QueryWidth()), stats.Values(),
          Columns(grads, in.stride, 0, shape.QueryWidth()),
          Columns(grads, in.stride, in.KeyColumn(), shape.KeyWidth()),
          Columns(grads, in.stride, in.ValueColumn(), shape.KeyWidth())};
}

void ExpectAttention(Backend& backend, const AttentionShape& shape, AttentionStats kind) {
  const std::string what = Describe(shape, kind);
  const PackedInputs in(shape);
  const Output found = RunAttention(backend, in, kind);
  const auto expected = reference::Attention(shape, in.Q(), in.K(), in.V());
  const auto grads = reference::AttentionBackward(shape, in.DOut(), in.Q(), in.K(), in.V());
  ExpectNear(found.out, expected.out, kForwardTolerance, what + " out");
  ExpectNear(found.stats,
             kind == AttentionStats::kProbabilities ? expected.probabilities : expected.log_sum_exp,
             kForwardTolerance, what + " stats");
  // The gradient of a single key's score is 0, made of terms of order one.
  ExpectNear(found.dq, grads.dq, kBackwardTolerance, what + " dq", 1.0);
  ExpectNear(found.dk, grads.dk, kBackwardTolerance, what + " dk", 1.0);
  ExpectNear(found.dv, grads.dv, kBackwardTolerance, what + " dv");
}

TEST(AttentionTest, ForwardAndBackwardMatchTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const AttentionShape& shape : AttentionShapes()) {
      ExpectAttention(*backend, shape, AttentionStats::kLogSumExp);
      ExpectAttention(*backend, shape, AttentionStats::kProbabilities);
    }
  }
}

// Scores of a few hundred: their exponentials overflow unless the row's maximum is taken off. A
// score's own rounding (300 * 1e-7) shows in the probabilities.
TEST(AttentionTest, LargeScoresDoNotOverflow) {
  const auto backend = MakeCpuBackend(1);
  AttentionShape shape = MakeAttentionShape(1, 70, 2, 2, 16);
  shape.scale = 8;
  const PackedInputs in(shape);
  const auto expected = reference::Attention(shape, in.Q(), in.K(), in.V());
  const auto grads = reference::AttentionBackward(shape, in.DOut(), in.Q(), in.K(), in.V());
  const Output found = RunAttention(*backend, in, AttentionStats::kLogSumExp);
  EXPECT_GT(*std::max_element(found.stats.begin(), found.stats.end()), 100);
  ExpectNear(found.out, expected.out, 2e-4, "out");
  ExpectNear(found.dq, grads.dq, 2e-4, "dq");
  ExpectNear(found.dk, grads.dk, 2e-4, "dk");
  ExpectNear(found.dv, grads.dv, 2e-4, "dv");
}

TEST(AttentionTest, LaterTokensDoNotReachEarlierOutputs) {
  const auto backend = MakeCpuBackend(3);
  const PackedInputs before(MakeAttentionShape(1, 130, 2, 1, 16));
  PackedInputs after = before;
  constexpr int64_t kFirstChanged = 71;
  for (int64_t i = kFirstChanged * after.stride; i < 130 * after.stride; ++i) after.qkv[i] += 1;
  const Floats out_before = RunAttention(*backend, before, AttentionStats::kLogSumExp).out;
  const Floats out_after = RunAttention(*backend, after, AttentionStats::kLogSumExp).out;
  const int64_t width = before.shape.QueryWidth();
  for (int64_t i = 0; i < kFirstChanged * width; ++i) ASSERT_EQ(out_before[i], out_after[i]);
  EXPECT_NE(out_before.back(), out_after.back());
}

TEST(AttentionTest, ResultsDoNotDependOnTheNumberOfThreads) {
  const PackedInputs in(MakeAttentionShape(1, 200, 6, 2, 32));
  const auto one = MakeCpuBackend(1);
  const auto three = MakeCpuBackend(3);
  const Output a = RunAttention(*one, in, AttentionStats::kLogSumExp);
  const Output b = RunAttention(*three, in, AttentionStats::kLogSumExp);
  EXPECT_EQ(a.out, b.out);
  EXPECT_EQ(a.dq, b.dq);
  EXPECT_EQ(a.dk, b.dk);
  EXPECT_EQ(a.dv, b.dv);
}

TEST(AttentionTest, ANotANumberReachesEveryLaterTokenOfItsSequence) {
  const auto backend = MakeCpuBackend(1);
  PackedInputs in(MakeAttentionShape(2, 40, 1, 1, 16));
  constexpr int64_t kToken = 11;
  in.qkv[kToken * in.stride + in.KeyColumn()] = std::numeric_limits<float>::quiet_NaN();
  const Floats out = RunAttention(*backend, in, AttentionStats::kLogSumExp).out;
  for (int64_t row = 0; row < in.shape.NumRows(); ++row) {
    EXPECT_EQ(std::isnan(out[row * in.shape.QueryWidth()]), row >= kToken && row < 40)
        << "row " << row;
  }
}

}  // namespace
}  // namespace tessera::kernels::testing
