// Operations on rows of 16-bit features: norms, activations, residuals, rotations, dropout.
#include "tests/kernels/half_test.h"
#include "tests/kernels/test_shapes.h"

namespace tessera::kernels::testing {
namespace {

using reference::NormKind;

constexpr RowsShape kHalfRowShapes[] = {{1, 1}, {3, 7}, {130, 257}, {70, 768}};

std::string Describe(const RowsShape& shape) {
  return base::Concat("rows ", shape.num_rows, " width ", shape.width);
}

class HalfRowsTest : public HalfTest {
 protected:
  void ExpectNormForward(NormKind kind, const RowsShape& shape) {
    const bool has_mean = kind == NormKind::kLayerNorm;
    const Doubles x = Random(shape.Size(), 1, 1, 3), gamma = Random(shape.width, 2, 0.5, 1.5);
    const Doubles beta = Random(shape.width, 3);
    const TypedArray device_x = Half(x), device_gamma = Half(gamma), device_beta = Half(beta);
    const TypedArray y = UnsetHalf(shape.Size());
    const TypedArray mean = UnsetFloat(shape.num_rows), rstd = UnsetFloat(shape.num_rows);
    const NormForwardArgs args = {.x = device_x,
                                  .gamma = device_gamma,
                                  .beta = has_mean ? ConstArray(device_beta) : ConstArray(),
                                  .y = y,
                                  .mean = has_mean ? Array(mean) : Array(),
                                  .rstd = rstd,
                                  .num_rows = shape.num_rows,
                                  .width = shape.width,
                                  .epsilon = kEpsilon};
    has_mean ? backend().LayerNormForward(args) : backend().RmsNormForward(args);
    const auto expected =
        reference::Norm(kind, shape.num_rows, shape.width, x, gamma, beta, kEpsilon);
    ExpectClose(y.Values(), expected.y, Describe(shape) + " y");
    ExpectClose(rstd.Values(), expected.rstd, Describe(shape) + " rstd");
    if (has_mean) ExpectClose(mean.Values(), expected.mean, Describe(shape) + " mean");
  }

  // dx may overwrite dy, or the gradient that comes around the norm.
  enum class Target { kOwn, kDy, kResidual };

  void ExpectNormBackward(NormKind kind, const RowsShape& shape, Target target) {
    const std::string what = base::Concat(Describe(shape), " target ", static_cast<int>(target));
    const bool has_mean = kind == NormKind::kLayerNorm;
    const bool has_residual = target != Target::kDy;
    const Doubles x = Random(shape.Size(), 1, 1, 3), gamma = Random(shape.width, 2, 0.5, 1.5);
    const Doubles dy = Random(shape.Size(), 3), residual = Random(shape.Size(), 4);
    const Doubles before = RandomFloats(shape.width, 5);
    const auto forward = reference::Norm(kind, shape.num_rows, shape.width, x, gamma,
                                         Doubles(shape.width), kEpsilon);
    const TypedArray device_x = Half(x), device_gamma = Half(gamma), device_dy = Half(dy);
    const TypedArray mean = Float(forward.mean), rstd = Float(forward.rstd);
    const TypedArray device_residual = Half(residual), own = UnsetHalf(shape.Size());
    const TypedArray dgamma = Float(before), dbeta = Float(before);
    const TypedArray& dx =
        target == Target::kOwn ? own : (target == Target::kDy ? device_dy : device_residual);
    const NormBackwardArgs args = {
        .dy = device_dy,
        .x = device_x,
        .gamma = device_gamma,
        .mean = has_mean ? ConstArray(mean) : ConstArray(),
        .rstd = rstd,
        .residual_grad = has_residual ? ConstArray(device_residual) : ConstArray(),
        .dx = dx,
        .dgamma = dgamma,
        .dbeta = has_mean ? Array(dbeta) : Array(),
        .num_rows = shape.num_rows,
        .width = shape.width};
    has_mean ? backend().LayerNormBackward(args) : backend().RmsNormBackward(args);
    auto expected =
        reference::NormBackward(kind, shape.num_rows, shape.width, dy, x, gamma, kEpsilon);
    for (int64_t i = 0; i < shape.Size() && has_residual; ++i) expected.dx[i] += residual[i];
    for (int64_t i = 0; i < shape.width; ++i) {
      expected.dgamma[i] += before[i];
      expected.dbeta[i] += before[i];
    }
    // A lone feature is its own mean: its gradient is rounding alone.
    if (shape.width > 1 || has_residual) ExpectClose(dx.Values(), expected.dx, what + " dx");
    ExpectClose(dgamma.Values(), expected.dgamma, what + " dgamma");
    if (has_mean) ExpectClose(dbeta.Values(), expected.dbeta, what + " dbeta");
  }

 private:
  static constexpr float kEpsilon = 1e-5F;
};

TEST_P(HalfRowsTest, NormsMatchTheReference) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    for (const RowsShape& shape : kHalfRowShapes) {
      ExpectNormForward(kind, shape);
      for (const Target target : {Target::kOwn, Target::kDy, Target::kResidual}) {
        ExpectNormBackward(kind, shape, target);
      }
    }
  }
}

// One rounding: the nearest number to the exact sum of three.
TEST_P(HalfRowsTest, ResidualsAreAddedWithOneRounding) {
  for (const RowsShape& shape : kHalfRowShapes) {
    const Doubles x = Random(shape.Size(), 1), residual = Random(shape.Size(), 2);
    const Doubles bias = Random(shape.width, 3);
    for (const int target : {0, 1, 2}) {
      const TypedArray device_x = Half(x), device_residual = Half(residual);
      const TypedArray device_bias = Half(bias), own = UnsetHalf(shape.Size());
      const TypedArray& y = target == 0 ? own : (target == 1 ? device_x : device_residual);
      const bool has_bias = target != 1;
      backend().ResidualAdd({.x = device_x,
                             .residual = device_residual,
                             .bias = has_bias ? ConstArray(device_bias) : ConstArray(),
                             .y = y,
                             .num_rows = shape.num_rows,
                             .width = shape.width});
      Doubles expected(shape.Size());
      for (int64_t i = 0; i < shape.Size(); ++i) {
        float sum = static_cast<float>(x[i]) + static_cast<float>(residual[i]);
        if (has_bias) sum += static_cast<float>(bias[i % shape.width]);
        expected[i] = Rounded(sum);
      }
      EXPECT_EQ(y.Values(), expected) << Describe(shape) << " target " << target;
    }
  }
}

TEST_P(HalfRowsTest, BiasGradientsAreSumsInFloats) {
  constexpr int64_t kNumRows = 1000, kGap = 5;
  for (const int64_t width : {1, 7, 257}) {
    const Doubles dy = Random(kNumRows * (width + kGap), 1, 0, 1), before = RandomFloats(width, 2);
    Doubles expected = before;
    for (int64_t i = 0; i < kNumRows * width; ++i) {
      expected[i % width] += dy[i / width * (width + kGap) + i % width];
    }
    const TypedArray device_dy = Half(dy), dbias = Float(before);
    backend().BiasGrad({.dy = device_dy,
                        .dbias = dbias,
                        .num_rows = kNumRows,
                        .width = width,
                        .stride = width + kGap});
    const Doubles found = dbias.Values();
    // Sums of 16-bit numbers: 256 times finer than either type would keep them.
    for (int64_t i = 0; i < width; ++i) ASSERT_NEAR(found[i], expected[i], 1e-5 * expected[i]);
  }
}

TEST_P(HalfRowsTest, SwiGluMatchesTheReference) {
  for (const RowsShape& shape : kHalfRowShapes) {
    const Doubles gate_up = Random(2 * shape.Size(), 1, -3, 3), dy = Random(shape.Size(), 2);
    const TypedArray device_gate_up = Half(gate_up), device_dy = Half(dy);
    const TypedArray y = UnsetHalf(shape.Size()), own = UnsetHalf(2 * shape.Size());
    backend().SwiGluForward(
        {.gate_up = device_gate_up, .y = y, .num_rows = shape.num_rows, .width = shape.width});
    ExpectClose(y.Values(), reference::SwiGlu(shape.num_rows, shape.width, gate_up),
                Describe(shape));
    const Doubles expected = reference::SwiGluBackward(shape.num_rows, shape.width, dy, gate_up);
    for (const TypedArray* const dgate_up : {&own, &device_gate_up}) {
      backend().SwiGluBackward({.dy = device_dy,
                                .gate_up = device_gate_up,
                                .dgate_up = *dgate_up,
                                .num_rows = shape.num_rows,
                                .width = shape.width});
      ExpectClose(dgate_up->Values(), expected, Describe(shape) + " backward");
    }
  }
}

TEST_P(HalfRowsTest, HeadsTurnByTheirPositionsAndNothingElseMoves) {
  constexpr int64_t kNumRows = 66, kSequence = 33, kHeads = 3, kHeadDim = 10, kGap = 4;
  constexpr int64_t kWidth = kHeads * kHeadDim, kStride = kWidth + kGap;
  const Doubles frequencies = {1, 0.3, 0.1, 0.03, 0.01};
  const Doubles before = Random(kNumRows * kStride, 1);
  Doubles heads;
  for (int64_t i = 0; i < kNumRows * kStride; ++i) {
    if (i % kStride < kWidth) heads.push_back(before[i]);
  }
  for (const bool inverse : {false, true}) {
    const TypedArray qk = Half(before);
    backend().Rope({.qk = qk,
                    .inverse_frequency = frequencies.data(),
                    .num_rows = kNumRows,
                    .sequence = kSequence,
                    .num_heads = kHeads,
                    .head_dim = kHeadDim,
                    .stride = kStride,
                    .inverse = inverse});
    const Doubles after = qk.Values();
    Doubles turned;
    for (int64_t i = 0; i < kNumRows * kStride; ++i) {
      if (i % kStride < kWidth) {
        turned.push_back(after[i]);
      } else {
        ASSERT_EQ(after[i], before[i]) << i;
      }
    }
    ExpectClose(turned,
                reference::Rope(kNumRows, kSequence, kHeads, kHeadDim, heads, frequencies,
                                inverse ? -1.0 : 1.0),
                "heads");
  }
}

TEST_P(HalfRowsTest, DropoutKeepsWhatItsDrawsKeep) {
  constexpr RowsShape kShape = {37, 65};
  const base::PhiloxKey key = base::MakePhiloxKey(7, "dropout");
  const Doubles x = Random(kShape.Size(), 1, 1, 2);
  const TypedArray device_x = Half(x), own = UnsetHalf(kShape.Size());
  Doubles expected(kShape.Size());
  for (int64_t i = 0; i < kShape.Size(); ++i) {
    const uint64_t index = 11 + i / kShape.width * 100 + i % kShape.width;
    expected[i] = base::UniformAt(key, index) >= 0.25 ? x[i] / 0.75 : 0.0;
  }
  for (const TypedArray* const y : {&own, &device_x}) {
    backend().Dropout(
        {.x = device_x,
         .y = *y,
         .num_rows = kShape.num_rows,
         .width = kShape.width,
         .dropout = {.probability = 0.25F, .key = key, .first_index = 11, .index_stride = 100}});
    const Doubles found = y->Values();
    ExpectClose(found, expected, "y");
    for (int64_t i = 0; i < kShape.Size(); ++i) ASSERT_EQ(found[i] == 0, expected[i] == 0) << i;
  }
}

TESSERA_HALF_SUITE(HalfRowsTest);

}  // namespace
}  // namespace tessera::kernels::testing
