// LayerNorm and RMSNorm on the device, forward and backward.
#include <cmath>

#include "cost_model/base/check.h"
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

using reference::NormKind;

constexpr float kEpsilon = 1e-5F;

struct NormShape {
  int64_t num_rows, width;
  int64_t offset = 0;  // elements that arrays begin behind a multiple of 16 bytes
};

// Widths with and without accesses of 16 bytes; rows that share a block, that have one, and that do
// not fit its registers.
constexpr NormShape kNormShapes[] = {{1, 1},    {3, 7},    {5, 33},    {4, 257},
                                     {2, 1000}, {70, 64},  {9, 1032},  {9, 1032, 1},
                                     {1, 2048}, {2, 8200}, {2, 16392}, {13, 48}};

std::string Text(NormKind kind, const NormShape& shape) {
  return base::Concat(kind == NormKind::kLayerNorm ? "layer norm " : "rms norm ", shape.num_rows,
                      " x ", shape.width, " at ", shape.offset);
}

class NormKernelTest : public KernelTest {
 protected:
  // Rows with an offset, so that a one-pass variance would lose digits.
  Doubles RandomX(const NormShape& shape) const {
    return Random(shape.num_rows * shape.width, 1, 2, 4);
  }

  void ExpectForward(NormKind kind, const NormShape& shape) {
    const auto [num_rows, width, offset] = shape;
    const bool has_mean = kind == NormKind::kLayerNorm;
    const Doubles x = RandomX(shape);
    const Doubles gamma = Random(width, 2, 0.5, 1.5);
    const Doubles beta = Random(width, 3);
    const auto found = InAllOrders([&]() -> std::vector<Doubles> {
      const DeviceArray device_x = Upload(x, offset), device_gamma = Upload(gamma, offset);
      const DeviceArray device_beta = Upload(beta, offset), y = Poison(num_rows * width, offset);
      const DeviceArray mean = PoisonFloats(num_rows), rstd = PoisonFloats(num_rows);
      const NormForwardArgs args{.x = device_x,
                                 .gamma = device_gamma,
                                 .beta = has_mean ? ConstArray(device_beta) : ConstArray(),
                                 .y = y,
                                 .mean = has_mean ? Array(mean) : Array(),
                                 .rstd = rstd,
                                 .num_rows = num_rows,
                                 .width = width,
                                 .epsilon = kEpsilon};
      has_mean ? LayerNormForward(stream(), args) : RmsNormForward(stream(), args);
      return {y.Values(), rstd.Values(), has_mean ? mean.Values() : Doubles()};
    });
    const auto expected = reference::Norm(kind, num_rows, width, x, gamma, beta, kEpsilon);
    ExpectClose(found[0], expected.y, tolerance(), "y of " + Text(kind, shape));
    // Statistics are fp32 whatever the type.
    if (width > 1) ExpectClose(found[1], expected.rstd, 1e-5, "rstd of " + Text(kind, shape));
    if (has_mean) ExpectClose(found[2], expected.mean, 1e-6, "mean of " + Text(kind, shape));
  }

  enum class Aliasing { kNone, kGradient, kResidual };

  void ExpectBackward(NormKind kind, const NormShape& shape, Aliasing aliasing, bool has_residual,
                      int64_t scratch_bytes = kLeastScratchBytes) {
    const auto [num_rows, width, offset] = shape;
    const bool has_mean = kind == NormKind::kLayerNorm;
    const int64_t n = num_rows * width;
    const Doubles x = RandomX(shape);
    const Doubles gamma = Random(width, 2, 0.5, 1.5);
    const Doubles dy = Random(n, 3), residual = Random(n, 4);
    const Doubles dgamma_before = RandomDoubles(width, 5), dbeta_before = RandomDoubles(width, 6);
    const auto forward =
        reference::Norm(kind, num_rows, width, x, gamma, Doubles(width, 0.0), kEpsilon);
    const TestStream small_stream(scratch_bytes);
    const auto found = InAllOrders([&]() -> std::vector<Doubles> {
      const DeviceArray device_x = Upload(x, offset), device_gamma = Upload(gamma, offset);
      const DeviceArray device_dy = Upload(dy, offset), residual_grad = Upload(residual, offset);
      const DeviceArray mean = Floats(forward.mean), rstd = Floats(forward.rstd);
      const DeviceArray fresh = Poison(n, offset);
      const DeviceArray dgamma = Floats(dgamma_before), dbeta = Floats(dbeta_before);
      const DeviceArray& dx = aliasing == Aliasing::kNone       ? fresh
                              : aliasing == Aliasing::kGradient ? device_dy
                                                                : residual_grad;
      const NormBackwardArgs args{
          .dy = device_dy,
          .x = device_x,
          .gamma = device_gamma,
          .mean = has_mean ? ConstArray(mean) : ConstArray(),
          .rstd = rstd,
          .residual_grad = has_residual ? ConstArray(residual_grad) : ConstArray(),
          .dx = dx,
          .dgamma = dgamma,
          .dbeta = has_mean ? Array(dbeta) : Array(),
          .num_rows = num_rows,
          .width = width};
      has_mean ? LayerNormBackward(small_stream, args) : RmsNormBackward(small_stream, args);
      return {dx.Values(), dgamma.Values(), dbeta.Values()};
    });
    auto expected = reference::NormBackward(kind, num_rows, width, dy, x, gamma, kEpsilon);
    for (int64_t i = 0; has_residual && i < n; ++i) expected.dx[i] += residual[i];
    for (int64_t j = 0; j < width; ++j) {
      expected.dgamma[j] += Rounded(DType::kFloat32, {dgamma_before[j]})[0];
      expected.dbeta[j] =
          (has_mean ? expected.dbeta[j] : 0.0) + Rounded(DType::kFloat32, {dbeta_before[j]})[0];
    }
    const std::string text = Text(kind, shape);
    // With one column a layer norm is constant: its dx is nothing but rounding.
    if (width > 1 || has_residual) ExpectClose(found[0], expected.dx, tolerance(), "dx of " + text);
    ExpectClose(found[1], expected.dgamma, 1e-5, "dgamma of " + text);
    ExpectClose(found[2], expected.dbeta, 1e-5, "dbeta of " + text);
  }
};

TEST_P(NormKernelTest, ForwardIsTheFormula) {
  for (const NormShape& shape : kNormShapes) {
    ExpectForward(NormKind::kLayerNorm, shape);
    ExpectForward(NormKind::kRmsNorm, shape);
  }
}

TEST_P(NormKernelTest, BackwardIsTheFormulaAndAccumulatesTheParameters) {
  for (const NormShape& shape : kNormShapes) {
    ExpectBackward(NormKind::kLayerNorm, shape, Aliasing::kNone, true);
    ExpectBackward(NormKind::kRmsNorm, shape, Aliasing::kNone, true);
  }
}

TEST_P(NormKernelTest, BackwardGoesWithoutAResidualGradient) {
  ExpectBackward(NormKind::kLayerNorm, {5, 40}, Aliasing::kNone, false);
  ExpectBackward(NormKind::kRmsNorm, {5, 41}, Aliasing::kNone, false);
}

TEST_P(NormKernelTest, BackwardMayWriteOverItsGradients) {
  for (const NormShape& shape : {NormShape{6, 264}, NormShape{6, 257}}) {
    for (const Aliasing aliasing : {Aliasing::kGradient, Aliasing::kResidual}) {
      ExpectBackward(NormKind::kLayerNorm, shape, aliasing, true);
      ExpectBackward(NormKind::kRmsNorm, shape, aliasing, true);
    }
  }
}

// Blocks and pieces of the sums are cut to what there is.
TEST_P(NormKernelTest, BackwardWorksWithLittleScratch) {
  for (const NormShape& shape : {NormShape{40, 264}, NormShape{40, 257}}) {
    ExpectBackward(NormKind::kLayerNorm, shape, Aliasing::kNone, true, 2 * 264 * 4);
    ExpectBackward(NormKind::kRmsNorm, shape, Aliasing::kNone, true, 2 * 264 * 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NormKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
