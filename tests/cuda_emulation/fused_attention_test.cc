// Attention by a library: cut into pieces as the scratch permits, refused where the library is not
// made for it. The library is a double that computes in double precision; on a GPU it is cuDNN too.
#include "kernels/cuda/fused_attention.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda {
namespace {

using base::DType;
using testing::DeviceArray;
using testing::Doubles;

// Rows with room behind them, so that a wrong stride shows.
constexpr int64_t kGap = 8;
constexpr double kUntouched = 77;

int64_t QkvStride(const reference::AttentionShape& s) {
  return s.QueryWidth() + 2 * s.KeyWidth() + kGap;
}
int64_t OutStride(const reference::AttentionShape& s) { return s.QueryWidth() + kGap; }

// Columns [begin, begin + width) of rows that are `stride` apart.
Doubles Columns(const Doubles& rows, int64_t stride, int64_t begin, int64_t width) {
  Doubles columns;
  for (size_t row = 0; row * stride < rows.size(); ++row) {
    const auto first = rows.begin() + row * stride + begin;
    columns.insert(columns.end(), first, first + width);
  }
  return columns;
}

// A library as cuDNN is: it works on strided memory, and its backward passes need workspace.
class LibraryDouble final : public AttentionLibrary {
 public:
  struct Log {
    std::vector<AttentionShape> built;
    int num_runs = 0;
  };
  explicit LibraryDouble(Log& log) : log_(log) {}
  std::string name() const override { return "double"; }
  std::unique_ptr<AttentionGraph> Build(const AttentionShape& shape) override {
    log_.built.push_back(shape);
    if (shape.head_dim > 128) return nullptr;
    return std::make_unique<Graph>(shape, log_);
  }

 private:
  class Graph final : public AttentionGraph {
   public:
    Graph(const AttentionShape& shape, Log& log) : shape_(shape), log_(log) {}

    int64_t workspace_bytes() const override {
      if (!shape_.is_backward) return 0;
      const bool is_shared = shape_.num_heads != shape_.num_kv_heads;
      return shape_.batch * shape_.num_heads * shape_.sequence *
                 (4 * shape_.head_dim + 4 + (is_shared ? 4 * shape_.head_dim : 0)) +
             256;
    }

    void Run(const AttentionMemory& memory, void* workspace, cudaStream_t stream) const override {
      ++log_.num_runs;
      CheckCuda(cudaMemsetAsync(workspace, 0xFF, workspace_bytes(), stream), "workspace");
      CheckCuda(cudaStreamSynchronize(stream), "stream");
      const int64_t query_width = shape_.num_heads * shape_.head_dim;
      const int64_t key_width = shape_.num_kv_heads * shape_.head_dim;
      const reference::AttentionShape shape{.batch = shape_.batch,
                                            .sequence = shape_.sequence,
                                            .num_heads = shape_.num_heads,
                                            .num_kv_heads = shape_.num_kv_heads,
                                            .head_dim = shape_.head_dim,
                                            .scale = shape_.scale};
      const Doubles q = Read(memory[kQ], query_width, shape_.qkv_stride);
      const Doubles k = Read(memory[kK], key_width, shape_.qkv_stride);
      const Doubles v = Read(memory[kV], key_width, shape_.qkv_stride);
      if (!shape_.is_backward) {
        const auto result = reference::Attention(shape, q, k, v);
        Write(result.out, memory[kOut], query_width, shape_.out_stride);
        WriteStats(result.log_sum_exp, static_cast<float*>(memory[kStats]));
        return;
      }
      const Doubles dout = Read(memory[kDout], query_width, shape_.out_stride);
      const auto grads = reference::AttentionBackward(shape, dout, q, k, v);
      Write(grads.dq, memory[kDq], query_width, shape_.dqkv_stride);
      Write(grads.dk, memory[kDk], key_width, shape_.dqkv_stride);
      Write(grads.dv, memory[kDv], key_width, shape_.dqkv_stride);
    }

   private:
    int64_t NumRows() const { return shape_.batch * shape_.sequence; }

    Doubles Read(const void* device, int64_t width, int64_t stride) const {
      std::vector<uint16_t> bits((NumRows() - 1) * stride + width);
      CheckCuda(cudaMemcpy(bits.data(), device, bits.size() * 2, cudaMemcpyDeviceToHost), "copy");
      Doubles values;
      for (int64_t row = 0; row < NumRows(); ++row) {
        for (int64_t i = 0; i < width; ++i) {
          values.push_back(testing::FromBits(shape_.dtype, &bits[row * stride + i]));
        }
      }
      return values;
    }

    void Write(const Doubles& values, void* device, int64_t width, int64_t stride) const {
      for (int64_t row = 0; row < NumRows(); ++row) {
        std::vector<uint16_t> bits;
        for (int64_t i = 0; i < width; ++i) {
          bits.push_back(
              static_cast<uint16_t>(testing::BitsOf(shape_.dtype, values[row * width + i])));
        }
        CheckCuda(cudaMemcpy(static_cast<uint16_t*>(device) + row * stride, bits.data(), 2 * width,
                             cudaMemcpyHostToDevice),
                  "copy");
      }
    }

    void WriteStats(const Doubles& log_sum_exp, float* device) const {
      const int64_t n = shape_.num_heads * shape_.sequence;
      for (int64_t sample = 0; sample < shape_.batch; ++sample) {
        const std::vector<float> values(log_sum_exp.begin() + sample * n,
                                        log_sum_exp.begin() + (sample + 1) * n);
        CheckCuda(cudaMemcpy(device + sample * shape_.stats_stride, values.data(),
                             n * sizeof(float), cudaMemcpyHostToDevice),
                  "copy");
      }
    }

    AttentionShape shape_;
    Log& log_;
  };

  Log& log_;
};

// Random q, k, v and the gradient of the result, in rows as a layer has them.
class Problem {
 public:
  Problem(const reference::AttentionShape& shape, DType dtype)
      : shape_(shape),
        dtype_(dtype),
        qkv_values_(Random(shape.NumRows() * QkvStride(shape), 1)),
        dout_values_(Random(shape.NumRows() * OutStride(shape), 2)),
        qkv_(dtype, qkv_values_),
        dout_(dtype, dout_values_),
        out_(dtype, Doubles(dout_values_.size(), kUntouched)),
        dqkv_(dtype, Doubles(qkv_values_.size(), kUntouched)),
        stats_(
            DeviceArray::Poison(DType::kFloat32, shape.batch * shape.num_heads * shape.sequence)) {}

  AttentionForwardArgs Forward() const {
    return Completed(AttentionForwardArgs{.q = qkv_,
                                          .k = qkv_.At(shape_.QueryWidth()),
                                          .v = qkv_.At(shape_.QueryWidth() + shape_.KeyWidth()),
                                          .out = out_,
                                          .stats = stats_,
                                          .batch = shape_.batch,
                                          .sequence = shape_.sequence,
                                          .num_heads = shape_.num_heads,
                                          .num_kv_heads = shape_.num_kv_heads,
                                          .head_dim = shape_.head_dim,
                                          .qkv_stride = QkvStride(shape_),
                                          .out_stride = OutStride(shape_),
                                          .scale = static_cast<float>(shape_.scale)});
  }

  AttentionBackwardArgs Backward() const {
    const AttentionForwardArgs forward = Forward();
    return Completed(AttentionBackwardArgs{.dout = dout_,
                                           .q = forward.q,
                                           .k = forward.k,
                                           .v = forward.v,
                                           .out = out_,
                                           .stats = stats_,
                                           .dq = dqkv_,
                                           .dk = dqkv_.At(shape_.QueryWidth()),
                                           .dv = dqkv_.At(shape_.QueryWidth() + shape_.KeyWidth()),
                                           .batch = shape_.batch,
                                           .sequence = shape_.sequence,
                                           .num_heads = shape_.num_heads,
                                           .num_kv_heads = shape_.num_kv_heads,
                                           .head_dim = shape_.head_dim,
                                           .qkv_stride = forward.qkv_stride,
                                           .out_stride = forward.out_stride,
                                           .dqkv_stride = forward.qkv_stride,
                                           .scale = forward.scale});
  }

  void ExpectForwardIsRight() const {
    const auto expected = reference::Attention(shape_, Q(), K(), V());
    const double tolerance = testing::ToleranceOf(dtype_);
    const Doubles out = out_.Values();
    testing::ExpectClose(Columns(out, OutStride(shape_), 0, shape_.QueryWidth()), expected.out,
                         tolerance, "out");
    testing::ExpectClose(stats_.Values(), expected.log_sum_exp, tolerance, "stats");
    ExpectGapIsUntouched(out, OutStride(shape_), "out");
  }

  void ExpectBackwardIsRight() const {
    const Doubles dout = Columns(dout_values_, OutStride(shape_), 0, shape_.QueryWidth());
    const auto expected = reference::AttentionBackward(shape_, dout, Q(), K(), V());
    const double tolerance = testing::ToleranceOf(dtype_);
    const Doubles dqkv = dqkv_.Values();
    const int64_t stride = QkvStride(shape_);
    testing::ExpectClose(Columns(dqkv, stride, 0, shape_.QueryWidth()), expected.dq, tolerance,
                         "dq");
    testing::ExpectClose(Columns(dqkv, stride, shape_.QueryWidth(), shape_.KeyWidth()), expected.dk,
                         tolerance, "dk");
    testing::ExpectClose(
        Columns(dqkv, stride, shape_.QueryWidth() + shape_.KeyWidth(), shape_.KeyWidth()),
        expected.dv, tolerance, "dv");
    ExpectGapIsUntouched(dqkv, stride, "dqkv");
  }

 private:
  Doubles Random(int64_t n, uint32_t seed) const {
    return testing::Rounded(dtype_, testing::RandomDoubles(n, seed));
  }
  Doubles Q() const { return Columns(qkv_values_, QkvStride(shape_), 0, shape_.QueryWidth()); }
  Doubles K() const {
    return Columns(qkv_values_, QkvStride(shape_), shape_.QueryWidth(), shape_.KeyWidth());
  }
  Doubles V() const {
    return Columns(qkv_values_, QkvStride(shape_), shape_.QueryWidth() + shape_.KeyWidth(),
                   shape_.KeyWidth());
  }
  static void ExpectGapIsUntouched(const Doubles& rows, int64_t stride, const char* what) {
    for (const double value : Columns(rows, stride, stride - kGap, kGap)) {
      ASSERT_EQ(value, kUntouched) << what;
    }
  }

  reference::AttentionShape shape_;
  DType dtype_;
  Doubles qkv_values_, dout_values_;
  DeviceArray qkv_, dout_, out_, dqkv_, stats_;
};

constexpr reference::AttentionShape kShared{
    .batch = 3, .sequence = 37, .num_heads = 8, .num_kv_heads = 4, .head_dim = 16, .scale = 0.25};

// Workspace of a backward pass of kShared cut down to so many samples and key/value heads.
int64_t WorkspaceBytes(int64_t batch, int64_t num_kv_heads) {
  return batch * num_kv_heads * 2 * kShared.sequence * (8 * kShared.head_dim + 4) + 256;
}

class FusedAttentionTest : public ::testing::Test {
 protected:
  LibraryDouble::Log log_;
  FusedAttention attention_{std::make_unique<LibraryDouble>(log_)};
  testing::TestStream stream_;
  LaunchContext context_ = stream_;
};

TEST_F(FusedAttentionTest, RunsInOnePieceWhereTheScratchSuffices) {
  const Problem problem(kShared, DType::kBFloat16);
  ASSERT_TRUE(attention_.Forward(context_, problem.Forward()));
  problem.ExpectForwardIsRight();
  context_.scratch_bytes = WorkspaceBytes(3, 4);
  ASSERT_TRUE(attention_.Backward(context_, problem.Backward()));
  problem.ExpectBackwardIsRight();
  EXPECT_EQ(log_.num_runs, 2);
}

TEST_F(FusedAttentionTest, CutsSamplesApartBeforeHeads) {
  const Problem problem(kShared, DType::kBFloat16);
  ASSERT_TRUE(attention_.Forward(context_, problem.Forward()));
  context_.scratch_bytes = WorkspaceBytes(1, 4);
  ASSERT_TRUE(attention_.Backward(context_, problem.Backward()));
  problem.ExpectBackwardIsRight();
  EXPECT_EQ(log_.num_runs, 1 + 3);
}

TEST_F(FusedAttentionTest, CutsHeadsApartWhereOneSampleIsTooMuch) {
  const Problem problem(kShared, DType::kFloat16);
  ASSERT_TRUE(attention_.Forward(context_, problem.Forward()));
  context_.scratch_bytes = WorkspaceBytes(1, 4) - 1;
  ASSERT_TRUE(attention_.Backward(context_, problem.Backward()));
  problem.ExpectBackwardIsRight();
  EXPECT_EQ(log_.num_runs, 1 + 3 * 2);
}

TEST_F(FusedAttentionTest, RefusesWhatOneHeadAloneHasNoRoomFor) {
  const Problem problem(kShared, DType::kBFloat16);
  context_.scratch_bytes = WorkspaceBytes(1, 1) - 1;
  EXPECT_FALSE(attention_.Backward(context_, problem.Backward()));
  EXPECT_EQ(log_.num_runs, 0);
}

TEST_F(FusedAttentionTest, ADeterministicOneAsksForBackwardPassesThatAre) {
  const Problem problem(kShared, DType::kBFloat16);
  FusedAttention deterministic(std::make_unique<LibraryDouble>(log_), /*deterministic=*/true);
  context_.scratch_bytes = WorkspaceBytes(3, 4);
  for (FusedAttention* const attention : {&attention_, &deterministic}) {
    ASSERT_TRUE(attention->Forward(context_, problem.Forward()));
    ASSERT_TRUE(attention->Backward(context_, problem.Backward()));
    EXPECT_EQ(log_.built.back().is_deterministic, attention == &deterministic);
  }
}

TEST_F(FusedAttentionTest, BuildsAPassOnce) {
  const Problem problem(kShared, DType::kBFloat16);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(attention_.Forward(context_, problem.Forward()));
  EXPECT_EQ(log_.built.size(), 1U);
  AttentionForwardArgs longer = problem.Forward();
  longer.batch = 1;
  ASSERT_TRUE(attention_.Forward(context_, longer));
  EXPECT_EQ(log_.built.size(), 2U);
}

TEST_F(FusedAttentionTest, RefusesWhatTheLibraryHasNoKernelFor) {
  const reference::AttentionShape wide{
      .batch = 1, .sequence = 4, .num_heads = 1, .num_kv_heads = 1, .head_dim = 136};
  const Problem problem(wide, DType::kBFloat16);
  EXPECT_FALSE(attention_.Forward(context_, problem.Forward()));
  EXPECT_FALSE(attention_.Forward(context_, problem.Forward()));
  EXPECT_EQ(log_.built.size(), 1U) << "asked again";
}

TEST_F(FusedAttentionTest, RefusesOtherTypesStatisticsAndAlignments) {
  const Problem problem(kShared, DType::kBFloat16);
  AttentionForwardArgs args = problem.Forward();
  args.stats_kind = base::AttentionStats::kProbabilities;
  EXPECT_FALSE(attention_.Forward(context_, args));
  args = problem.Forward();
  args.k = args.k.At(1);
  EXPECT_FALSE(attention_.Forward(context_, args));
  args = problem.Forward();
  args.qkv_stride += 4;
  EXPECT_FALSE(attention_.Forward(context_, args));
  EXPECT_FALSE(attention_.Forward(context_, Problem(kShared, DType::kFloat32).Forward()));
  EXPECT_TRUE(log_.built.empty());
}

TEST_F(FusedAttentionTest, RefusesPartsOfSequencesAndSumsOfGradients) {
  const Problem problem(kShared, DType::kBFloat16);
  AttentionForwardArgs args = problem.Forward();
  args.mask = base::AttentionMask::kFull;
  EXPECT_FALSE(attention_.Forward(context_, args));
  args = problem.Forward();
  args.query_rows *= 2;
  EXPECT_FALSE(attention_.Forward(context_, args));
  args = problem.Forward();
  args.key_sequence += 1;
  EXPECT_FALSE(attention_.Forward(context_, args));
  AttentionBackwardArgs back = problem.Backward();
  back.sums = base::AttentionSums::kKeysAndValues;
  EXPECT_FALSE(attention_.Backward(context_, back));
  EXPECT_TRUE(log_.built.empty());
}

TEST_F(FusedAttentionTest, RefusesEverythingWithoutALibrary) {
  FusedAttention none(nullptr);
  const Problem problem(kShared, DType::kBFloat16);
  EXPECT_FALSE(none.Forward(context_, problem.Forward()));
  EXPECT_FALSE(none.Backward(context_, problem.Backward()));
  EXPECT_EQ(none.name(), "");
}

// What is tested here on a GPU is the library itself.
TEST(AttentionLibraryTest, ComputesAttention) {
  if (!MakeAttentionLibrary()) GTEST_SKIP() << "no library of attention kernels here";
  for (const reference::AttentionShape& shape : {kShared,
                                                 reference::AttentionShape{.batch = 1,
                                                 .sequence = 300,
                                                 .num_heads = 3,
                                                 .num_kv_heads = 3,
                                                 .head_dim = 64,
                                                 .scale = 0.125},
                                                 reference::AttentionShape{.batch = 2,
                                                 .sequence = 129,
                                                 .num_heads = 4,
                                                 .num_kv_heads = 1,
                                                 .head_dim = 128,
                                                 .scale = 0.088}}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      // Whole, and in pieces.
      for (const int64_t scratch_bytes : {int64_t{64} << 20, int64_t{1} << 20}) {
        SCOPED_TRACE(base::Concat(base::ToString(dtype), ", sequence ", shape.sequence,
                                  ", scratch ", scratch_bytes));
        FusedAttention attention(MakeAttentionLibrary());
        const testing::TestStream stream(scratch_bytes);
        const Problem problem(shape, dtype);
        ASSERT_TRUE(attention.Forward(stream, problem.Forward()));
        problem.ExpectForwardIsRight();
        ASSERT_TRUE(attention.Backward(stream, problem.Backward()));
        problem.ExpectBackwardIsRight();
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
