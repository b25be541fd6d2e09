#include "tests/kernels/device_array.h"
#include "tests/kernels/test_shapes.h"

namespace tessera::kernels::testing {
namespace {

using reference::NormKind;

// Sums over a row and over the rows round by a few float epsilons of their largest terms.
constexpr double kNormTolerance = 5e-6;
constexpr float kEpsilon = 1e-5F;

constexpr RowsShape kNormShapes[] = {{1, 1}, {3, 7}, {33, 48}, {130, 257}, {70, 768}, {600, 64}};

void Forward(Backend& backend, NormKind kind, const NormForwardArgs& args) {
  if (kind == NormKind::kLayerNorm) {
    backend.LayerNormForward(args);
  } else {
    backend.RmsNormForward(args);
  }
}

void Backward(Backend& backend, NormKind kind, const NormBackwardArgs& args) {
  if (kind == NormKind::kLayerNorm) {
    backend.LayerNormBackward(args);
  } else {
    backend.RmsNormBackward(args);
  }
}

// NormInputs with an offset, so that a one-pass variance would lose digits.
struct NormInputs {
  explicit NormInputs(const RowsShape& shape)
      : x(RandomFloats(shape.num_rows * shape.width, 1, 2, 4)),
        gamma(RandomFloats(shape.width, 2, 0.5, 1.5)),
        beta(RandomFloats(shape.width, 3)),
        dy(RandomFloats(shape.num_rows * shape.width, 4)) {}
  Floats x, gamma, beta, dy;
};

void ExpectForward(Backend& backend, NormKind kind, const RowsShape& shape) {
  const std::string what = base::Concat("rows ", shape.num_rows, " width ", shape.width);
  const NormInputs in(shape);
  const bool has_mean = kind == NormKind::kLayerNorm;
  const DeviceFloats x(backend, in.x), gamma(backend, in.gamma), beta(backend, in.beta);
  const DeviceFloats y = Unset(backend, shape.num_rows * shape.width);
  const DeviceFloats mean = Unset(backend, shape.num_rows), rstd = Unset(backend, shape.num_rows);
  Forward(backend, kind,
          {.x = x,
           .gamma = gamma,
           .beta = has_mean ? ConstArray(beta) : ConstArray(),
           .y = y,
           .mean = has_mean ? Array(mean) : Array(),
           .rstd = rstd,
           .num_rows = shape.num_rows,
           .width = shape.width,
           .epsilon = kEpsilon});
  const auto expected = reference::Norm(kind, shape.num_rows, shape.width, ToDoubles(in.x),
                                        ToDoubles(in.gamma), ToDoubles(in.beta), kEpsilon);
  ExpectNear(y.Values(), expected.y, kNormTolerance, what + " y");
  ExpectNear(rstd.Values(), expected.rstd, kNormTolerance, what + " rstd");
  if (has_mean) ExpectNear(mean.Values(), expected.mean, kNormTolerance, what + " mean");
}

enum class Alias { kNone, kDy, kResidual };

void ExpectBackward(Backend& backend, NormKind kind, const RowsShape& shape, Alias alias) {
  const std::string what = base::Concat("rows ", shape.num_rows, " width ", shape.width, " alias ",
                                        static_cast<int>(alias));
  const NormInputs in(shape);
  const int64_t size = shape.num_rows * shape.width;
  const bool has_mean = kind == NormKind::kLayerNorm;
  const auto forward = reference::Norm(kind, shape.num_rows, shape.width, ToDoubles(in.x),
                                       ToDoubles(in.gamma), ToDoubles(in.beta), kEpsilon);
  const Floats residual_values = RandomFloats(size, 5);
  const Floats dgamma_before = RandomFloats(shape.width, 6);
  const Floats dbeta_before = RandomFloats(shape.width, 7);
  const DeviceFloats x(backend, in.x), gamma(backend, in.gamma), dy(backend, in.dy);
  const DeviceFloats mean(backend, Floats(forward.mean.begin(), forward.mean.end()));
  const DeviceFloats rstd(backend, Floats(forward.rstd.begin(), forward.rstd.end()));
  const DeviceFloats residual(backend, residual_values), own_dx = Unset(backend, size);
  const DeviceFloats dgamma(backend, dgamma_before), dbeta(backend, dbeta_before);
  const bool has_residual = alias != Alias::kDy;
  const DeviceFloats& dx = alias == Alias::kNone ? own_dx : (alias == Alias::kDy ? dy : residual);
  Backward(backend, kind,
           {.dy = dy,
            .x = x,
            .gamma = gamma,
            .mean = has_mean ? ConstArray(mean) : ConstArray(),
            .rstd = rstd,
            .residual_grad = has_residual ? ConstArray(residual) : ConstArray(),
            .dx = dx,
            .dgamma = dgamma,
            .dbeta = has_mean ? Array(dbeta) : Array(),
            .num_rows = shape.num_rows,
            .width = shape.width});
  auto expected = reference::NormBackward(kind, shape.num_rows, shape.width, ToDoubles(in.dy),
                                          ToDoubles(in.x), ToDoubles(in.gamma), kEpsilon);
  if (has_residual) {
    for (int64_t i = 0; i < size; ++i) expected.dx[i] += residual_values[i];
  }
  for (int64_t j = 0; j < shape.width; ++j) {
    expected.dgamma[j] += dgamma_before[j];
    expected.dbeta[j] += dbeta_before[j];
  }
  // A row of one column has rstd = 1/sqrt(epsilon) = 316 in front of a difference that is 0.
  const double dx_tolerance = shape.width == 1 ? 316 * kNormTolerance : kNormTolerance;
  ExpectNear(dx.Values(), expected.dx, dx_tolerance, what + " dx", 1.0);
  ExpectNear(dgamma.Values(), expected.dgamma, kNormTolerance, what + " dgamma");
  if (has_mean) ExpectNear(dbeta.Values(), expected.dbeta, kNormTolerance, what + " dbeta");
}

class NormTest : public ::testing::TestWithParam<NormKind> {};

TEST_P(NormTest, ForwardMatchesTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const RowsShape& shape : kNormShapes) ExpectForward(*backend, GetParam(), shape);
  }
}

TEST_P(NormTest, BackwardMatchesTheReferenceWithEveryAlias) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const RowsShape& shape : kNormShapes) {
      for (const Alias alias : {Alias::kNone, Alias::kDy, Alias::kResidual}) {
        ExpectBackward(*backend, GetParam(), shape, alias);
      }
    }
  }
}

TEST_P(NormTest, ParameterGradientsDoNotDependOnTheNumberOfThreads) {
  constexpr RowsShape kShape{1000, 96};
  const NormInputs in(kShape);
  std::vector<Floats> results;
  for (const int num_threads : {1, 2, 3}) {
    const auto backend = MakeCpuBackend(num_threads);
    const bool has_mean = GetParam() == NormKind::kLayerNorm;
    const DeviceFloats x(*backend, in.x), gamma(*backend, in.gamma), dy(*backend, in.dy);
    const DeviceFloats ones(*backend, Floats(kShape.num_rows, 1.0F));
    const DeviceFloats dx = Unset(*backend, kShape.num_rows * kShape.width);
    const DeviceFloats dgamma(*backend, Floats(kShape.width)),
        dbeta(*backend, Floats(kShape.width));
    Backward(*backend, GetParam(),
             {.dy = dy,
              .x = x,
              .gamma = gamma,
              .mean = has_mean ? ConstArray(ones) : ConstArray(),
              .rstd = ones,
              .dx = dx,
              .dgamma = dgamma,
              .dbeta = has_mean ? Array(dbeta) : Array(),
              .num_rows = kShape.num_rows,
              .width = kShape.width});
    results.push_back(dgamma.Values());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_P(NormTest, ANotANumberStaysInItsRow) {
  const auto backend = MakeCpuBackend(1);
  constexpr RowsShape kShape{4, 48};
  NormInputs in(kShape);
  in.x[2 * kShape.width + 5] = std::numeric_limits<float>::quiet_NaN();
  const bool has_mean = GetParam() == NormKind::kLayerNorm;
  const DeviceFloats x(*backend, in.x), gamma(*backend, in.gamma), beta(*backend, in.beta);
  const DeviceFloats y = Unset(*backend, kShape.num_rows * kShape.width);
  const DeviceFloats mean = Unset(*backend, kShape.num_rows),
                     rstd = Unset(*backend, kShape.num_rows);
  Forward(*backend, GetParam(),
          {.x = x,
           .gamma = gamma,
           .beta = has_mean ? ConstArray(beta) : ConstArray(),
           .y = y,
           .mean = has_mean ? Array(mean) : Array(),
           .rstd = rstd,
           .num_rows = kShape.num_rows,
           .width = kShape.width,
           .epsilon = kEpsilon});
  const Floats values = y.Values();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::isnan(values[i]), i / kShape.width == 2) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormTest,
                         ::testing::Values(NormKind::kLayerNorm, NormKind::kRmsNorm),
                         [](const auto& kind) {
                           return kind.param == NormKind::kLayerNorm ? "LayerNorm" : "RmsNorm";
                         });

}  // namespace
}  // namespace tessera::kernels::testing
