#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

using base::AttentionStats;
using reference::AttentionShape;

AttentionShape MakeShape(int64_t batch, int64_t sequence, int64_t num_heads, int64_t num_kv_heads,
                         int64_t head_dim) {
  return {batch,        sequence, num_heads,
          num_kv_heads, head_dim, 1.0 / std::sqrt(static_cast<double>(head_dim))};
}

// q, k and v as columns of one packed array whose rows are `gap` elements longer than they need.
struct Inputs {
  Inputs(DType type, const AttentionShape& attention_shape, int64_t row_gap)
      : dtype(type),
        shape(attention_shape),
        gap(row_gap),
        stride(shape.QueryWidth() + 2 * shape.KeyWidth() + gap),
        out_stride(shape.QueryWidth() + gap),
        qkv(Rounded(dtype, RandomDoubles(shape.NumRows() * stride, 1, -2, 2))),
        dout(Rounded(dtype, RandomDoubles(shape.NumRows() * out_stride, 2))) {}

  int64_t KeyColumn() const { return shape.QueryWidth(); }
  int64_t ValueColumn() const { return shape.QueryWidth() + shape.KeyWidth(); }
  Doubles Q() const { return Columns(qkv, stride, 0, shape.QueryWidth()); }
  Doubles K() const { return Columns(qkv, stride, KeyColumn(), shape.KeyWidth()); }
  Doubles V() const { return Columns(qkv, stride, ValueColumn(), shape.KeyWidth()); }
  Doubles DOut() const { return Columns(dout, out_stride, 0, shape.QueryWidth()); }

  // Columns [first, first + width) of a matrix with row length `row_length`, dense.
  static Doubles Columns(const Doubles& values, int64_t row_length, int64_t first, int64_t width) {
    Doubles columns;
    for (auto row = values.begin(); row < values.end(); row += row_length) {
      columns.insert(columns.end(), row + first, row + first + width);
    }
    return columns;
  }

  DType dtype;
  AttentionShape shape;
  int64_t gap, stride, out_stride;
  Doubles qkv, dout;
};

DType StatsType(DType dtype, AttentionStats kind) {
  return kind == AttentionStats::kProbabilities ? dtype : DType::kFloat32;
}

int64_t StatsSize(const AttentionShape& shape, AttentionStats kind) {
  const int64_t num_rows = shape.batch * shape.num_heads * shape.sequence;
  return kind == AttentionStats::kProbabilities ? num_rows * shape.sequence : num_rows;
}

void Forward(const LaunchContext& stream, const Inputs& in, AttentionStats kind,
             const DeviceArray& qkv, const DeviceArray& out, const DeviceArray& stats) {
  AttentionForward(stream,
                   Completed(AttentionForwardArgs{.q = qkv,
                                                  .k = qkv.At(in.KeyColumn()),
                                                  .v = qkv.At(in.ValueColumn()),
                                                  .out = out,
                                                  .stats = stats,
                                                  .stats_kind = kind,
                                                  .batch = in.shape.batch,
                                                  .sequence = in.shape.sequence,
                                                  .num_heads = in.shape.num_heads,
                                                  .num_kv_heads = in.shape.num_kv_heads,
                                                  .head_dim = in.shape.head_dim,
                                                  .qkv_stride = in.stride,
                                                  .out_stride = in.out_stride,
                                                  .scale = static_cast<float>(in.shape.scale)}));
}

void Backward(const LaunchContext& stream, const Inputs& in, AttentionStats kind,
              const DeviceArray& qkv, ConstArray out, const DeviceArray& stats,
              const DeviceArray& dqkv) {
  const DeviceArray dout(in.dtype, in.dout);
  AttentionBackward(stream,
                    Completed(AttentionBackwardArgs{.dout = dout,
                                                    .q = qkv,
                                                    .k = qkv.At(in.KeyColumn()),
                                                    .v = qkv.At(in.ValueColumn()),
                                                    .out = out,
                                                    .stats = stats,
                                                    .dq = dqkv,
                                                    .dk = dqkv.At(in.KeyColumn()),
                                                    .dv = dqkv.At(in.ValueColumn()),
                                                    .stats_kind = kind,
                                                    .batch = in.shape.batch,
                                                    .sequence = in.shape.sequence,
                                                    .num_heads = in.shape.num_heads,
                                                    .num_kv_heads = in.shape.num_kv_heads,
                                                    .head_dim = in.shape.head_dim,
                                                    .qkv_stride = in.stride,
                                                    .out_stride = in.out_stride,
                                                    .dqkv_stride = in.stride,
                                                    .scale = static_cast<float>(in.shape.scale)}));
  CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

// out, stats and dqkv, all rows at their full length.
std::vector<Doubles> RunBoth(const LaunchContext& stream, const Inputs& in, AttentionStats kind) {
  const DeviceArray qkv(in.dtype, in.qkv);
  const auto out = DeviceArray::Poison(in.dtype, in.shape.NumRows() * in.out_stride);
  const auto stats = DeviceArray::Poison(StatsType(in.dtype, kind), StatsSize(in.shape, kind));
  const auto dqkv = DeviceArray::Poison(in.dtype, in.shape.NumRows() * in.stride);
  Forward(stream, in, kind, qkv, out, stats);
  Backward(stream, in, kind, qkv, out, stats, dqkv);
  return {out.Values(), stats.Values(), dqkv.Values()};
}

std::string Describe(const Inputs& in, AttentionStats kind) {
  const AttentionShape& shape = in.shape;
  return base::Concat("batch ", shape.batch, " sequence ", shape.sequence, " heads ",
                      shape.num_heads, "/", shape.num_kv_heads, " head_dim ", shape.head_dim,
                      " gap ", in.gap, " stats ", static_cast<int>(kind), " ");
}

void ExpectGapIsUntouched(const Doubles& rows, int64_t row_length, int64_t gap,
                          const std::string& what) {
  for (const double value : Inputs::Columns(rows, row_length, row_length - gap, gap)) {
    EXPECT_TRUE(std::isnan(value)) << what;
  }
}

void ExpectAttention(const LaunchContext& stream, const Inputs& in, AttentionStats kind) {
  const std::string what = Describe(in, kind);
  const std::vector<Doubles> found = RunBoth(stream, in, kind);
  const auto expected = reference::Attention(in.shape, in.Q(), in.K(), in.V());
  const auto grads = reference::AttentionBackward(in.shape, in.DOut(), in.Q(), in.K(), in.V());
  const double tolerance = ToleranceOf(in.dtype);
  const int64_t query_width = in.shape.QueryWidth();
  const int64_t key_width = in.shape.KeyWidth();
  ExpectClose(Inputs::Columns(found[0], in.out_stride, 0, query_width), expected.out, tolerance,
              what + "out");
  if (kind == AttentionStats::kProbabilities) {
    ExpectClose(found[1], expected.probabilities, tolerance, what + "probabilities");
  } else {
    ExpectClose(found[1], expected.log_sum_exp, 1e-5, what + "log-sum-exp");
  }
  ExpectClose(Inputs::Columns(found[2], in.stride, in.ValueColumn(), key_width), grads.dv,
              tolerance, what + "dv");
  // A single key's probability is 1 whatever its score: dq and dk are differences of equal terms.
  if (in.shape.sequence > 1) {
    ExpectClose(Inputs::Columns(found[2], in.stride, 0, query_width), grads.dq, tolerance,
                what + "dq");
    ExpectClose(Inputs::Columns(found[2], in.stride, in.KeyColumn(), key_width), grads.dk,
                tolerance, what + "dk");
  }
  ExpectGapIsUntouched(found[0], in.out_stride, in.gap, what + "out");
  ExpectGapIsUntouched(found[2], in.stride, in.gap, what + "dqkv");
}

class AttentionKernelTest : public KernelTest {};

// Sequences around the tiles, which are 16 to 128 rows; rows that allow 16-byte accesses.
TEST_P(AttentionKernelTest, AlignedRowsMatchTheReference) {
  for (const AttentionShape& shape :
       {MakeShape(2, 1, 4, 4, 8), MakeShape(1, 7, 4, 2, 64), MakeShape(2, 63, 4, 1, 128),
        MakeShape(1, 64, 2, 2, 80), MakeShape(1, 65, 4, 1, 64), MakeShape(1, 130, 4, 2, 128),
        MakeShape(2, 130, 2, 1, 64), MakeShape(1, 200, 1, 1, 8)}) {
    ExpectAttention(stream(), Inputs(dtype(), shape, 8), AttentionStats::kLogSumExp);
  }
}

TEST_P(AttentionKernelTest, RowsOfAnyLengthAndStrideMatchTheReference) {
  for (const AttentionShape& shape :
       {MakeShape(1, 1, 2, 1, 3), MakeShape(2, 33, 3, 3, 64), MakeShape(1, 70, 4, 2, 7),
        MakeShape(1, 40, 2, 1, 131), MakeShape(1, 35, 1, 1, 256)}) {
    ExpectAttention(stream(), Inputs(dtype(), shape, 3), AttentionStats::kLogSumExp);
  }
}

TEST_P(AttentionKernelTest, KeptProbabilitiesMatchTheReference) {
  for (const AttentionShape& shape :
       {MakeShape(1, 1, 1, 1, 8), MakeShape(2, 33, 4, 2, 16), MakeShape(1, 70, 2, 1, 64)}) {
    ExpectAttention(stream(), Inputs(dtype(), shape, 8), AttentionStats::kProbabilities);
  }
}

TEST_P(AttentionKernelTest, ResultsDoNotDependOnTheOrderOfThreads) {
  for (const int64_t gap : {8, 3}) {
    const Inputs in(dtype(), MakeShape(1, 70, 4, 2, 64), gap);
    InAllOrders([&] { return RunBoth(stream(), in, AttentionStats::kLogSumExp); });
  }
  const Inputs in(dtype(), MakeShape(1, 40, 2, 1, 16), 0);
  InAllOrders([&] { return RunBoth(stream(), in, AttentionStats::kProbabilities); });
}

// The row sums of dout * out find no place there: the kernels form them themselves.
TEST_P(AttentionKernelTest, BackwardNeedsNoScratch) {
  const LaunchContext& with = stream();
  LaunchContext without = with;
  without.scratch_bytes = 0;
  for (const int64_t gap : {8, 3}) {
    ExpectAttention(without, Inputs(dtype(), MakeShape(2, 70, 4, 2, 64), gap),
                    AttentionStats::kLogSumExp);
  }
}

// Scores of a few hundred: their exponentials overflow unless the row's maximum is taken off. A
// score's own rounding (300 * 1e-7) shows in the probabilities.
TEST_P(AttentionKernelTest, BackwardTakesAnOutputThatAloneIsMisaligned) {
  const Inputs in(dtype(), MakeShape(1, 70, 2, 1, 16), 0);
  const std::vector<Doubles> aligned = RunBoth(stream(), in, AttentionStats::kLogSumExp);
  Doubles shifted = aligned[0];
  shifted.insert(shifted.begin(), 0.0);
  const DeviceArray qkv(in.dtype, in.qkv), out(in.dtype, shifted);
  const DeviceArray stats(DType::kFloat32, aligned[1]);
  const auto dqkv = DeviceArray::Poison(in.dtype, in.shape.NumRows() * in.stride);
  Backward(stream(), in, AttentionStats::kLogSumExp, qkv, out.At(1), stats, dqkv);
  ExpectClose(dqkv.Values(), aligned[2], ToleranceOf(dtype()), "gradients");
}

TEST_P(AttentionKernelTest, LargeScoresDoNotOverflow) {
  for (const int64_t gap : {8, 3}) {
    AttentionShape shape = MakeShape(1, 70, 2, 2, 16);
    shape.scale = 8;
    const Inputs in(dtype(), shape, gap);
    const std::vector<Doubles> found = RunBoth(stream(), in, AttentionStats::kLogSumExp);
    const auto expected = reference::Attention(shape, in.Q(), in.K(), in.V());
    EXPECT_GT(*std::max_element(found[1].begin(), found[1].end()), 100);
    ExpectClose(Inputs::Columns(found[0], in.out_stride, 0, shape.QueryWidth()), expected.out,
                std::max(tolerance(), 2e-4), "out");
  }
}

TEST_P(AttentionKernelTest, LaterTokensDoNotReachEarlierOutputs) {
  constexpr int64_t kFirstChanged = 71;
  for (const int64_t gap : {8, 3}) {
    const Inputs before(dtype(), MakeShape(1, 130, 2, 1, 16), gap);
    Inputs after = before;
    for (size_t i = kFirstChanged * after.stride; i < after.qkv.size(); ++i) after.qkv[i] += 1;
    const Doubles a = RunBoth(stream(), before, AttentionStats::kLogSumExp)[0];
    const Doubles b = RunBoth(stream(), after, AttentionStats::kLogSumExp)[0];
    const auto dense = [&](const Doubles& out) {
      return Inputs::Columns(out, before.out_stride, 0, before.shape.QueryWidth());
    };
    const Doubles x = dense(a);
    const Doubles y = dense(b);
    const int64_t same = kFirstChanged * before.shape.QueryWidth();
    EXPECT_TRUE(std::equal(x.begin(), x.begin() + same, y.begin()));
    EXPECT_NE(x.back(), y.back());
  }
}

TEST(AttentionKernelErrorTest, HeadsThatAreTooWideAreRefused) {
  const TestStream stream;
  const Inputs in(DType::kFloat32, MakeShape(1, 2, 1, 1, 257), 0);
  EXPECT_THROW(RunBoth(stream, in, AttentionStats::kLogSumExp), base::ConfigError);
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
