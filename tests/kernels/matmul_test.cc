#include "tests/kernels/device_array.h"
#include "tests/kernels/test_shapes.h"

namespace tessera::kernels::testing {
namespace {

using base::Epilogue;
using base::MatMulLayout;

constexpr float kFloatEpsilon = std::numeric_limits<float>::epsilon();

// Edges of every kind: single elements, sizes below and beside the micro-kernels, several tiles.
constexpr ProductShape kMatMulShapes[] = {{1, 1, 1},      {1, 257, 33},    {7, 5, 3},
                                          {48, 48, 48},   {130, 97, 1},    {257, 48, 65},
                                          {64, 2000, 17}, {1100, 200, 40}, {33, 1700, 96}};

// Operands with row strides wider than the rows, as columns of packed arrays have.
struct Operands {
  Operands(const ProductShape& shape, MatMulLayout layout)
      : a_rows(layout == MatMulLayout::kTN ? shape.k : shape.m),
        a_cols(layout == MatMulLayout::kTN ? shape.m : shape.k),
        b_rows(layout == MatMulLayout::kNT ? shape.n : shape.k),
        b_cols(layout == MatMulLayout::kNT ? shape.k : shape.n),
        a(RandomFloats(a_rows * (a_cols + kGap), 1)),
        b(RandomFloats(b_rows * (b_cols + kGap), 2)) {}

  Doubles DenseA() const { return ToDoubles(Columns(a, a_cols + kGap, 0, a_cols)); }
  Doubles DenseB() const { return ToDoubles(Columns(b, b_cols + kGap, 0, b_cols)); }

  static constexpr int64_t kGap = 3;
  int64_t a_rows, a_cols, b_rows, b_cols;
  Floats a, b;
};

// Rounding of a sum of k products: at most k epsilon times the sum of magnitudes, here at most k.
double SumTolerance(const ProductShape& shape) {
  return kFloatEpsilon * static_cast<double>(shape.k + 2) * static_cast<double>(shape.k);
}

void ExpectEpilogue(Backend& backend, const ProductShape& shape, MatMulLayout layout,
                    Epilogue epilogue, bool accumulate, bool may_have_bias = true) {
  const std::string what = base::Concat("m ", shape.m, " n ", shape.n, " k ", shape.k, " layout ",
                                        static_cast<int>(layout), " epilogue ",
                                        static_cast<int>(epilogue), " accumulate ", accumulate);
  const Operands operands(shape, layout);
  const int64_t ldc = shape.n + Operands::kGap;
  const Floats bias = RandomFloats(shape.n, 3);
  const Floats c_before = RandomFloats(shape.m * ldc, 4);
  const Floats aux_before = RandomFloats(shape.m * ldc, 5, -4, 4);
  const DeviceFloats a(backend, operands.a), b(backend, operands.b), c(backend, c_before);
  const DeviceFloats device_bias(backend, bias), aux(backend, aux_before);
  const bool has_bias =
      may_have_bias && (epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasGelu);
  const bool has_aux = epilogue == Epilogue::kBiasGelu || epilogue == Epilogue::kGeluGrad;
  backend.MatMul({.a = a,
                  .b = b,
                  .c = c,
                  .m = shape.m,
                  .n = shape.n,
                  .k = shape.k,
                  .lda = operands.a_cols + Operands::kGap,
                  .ldb = operands.b_cols + Operands::kGap,
                  .ldc = ldc,
                  .layout = layout,
                  .accumulate = accumulate,
                  .epilogue = epilogue,
                  .bias = has_bias ? ConstArray(device_bias) : ConstArray(),
                  .aux = has_aux ? Array(aux) : Array()});
  const Floats c_after = c.Values();
  const Floats aux_after = aux.Values();
  const Doubles product =
      reference::MatMul(layout, shape.m, shape.n, shape.k, operands.DenseA(), operands.DenseB());
  // GELU and its derivative have slopes below 1.2 and values below 1.2 times the argument's.
  const double tolerance = 1.2 * SumTolerance(shape) + 4 * kFloatEpsilon;
  const auto expect_near = [&](float found, double expected, int64_t at) {
    const double bound = tolerance * std::max(1.0, std::abs(expected));
    // Negated, so that a NaN fails.
    if (!(std::abs(found - expected) <= bound)) {
      ADD_FAILURE() << what << " at " << at << ": found " << found << ", expected " << expected;
    }
  };
  for (int64_t at = 0; at < shape.m * ldc; ++at) {
    const int64_t j = at % ldc;
    if (j >= shape.n) {
      if (c_after[at] != c_before[at]) ADD_FAILURE() << what << ": wrote between rows at " << at;
      continue;
    }
    double expected = product[at / ldc * shape.n + j] + (accumulate ? c_before[at] : 0.0F);
    if (has_bias) expected += bias[j];
    if (epilogue == Epilogue::kBiasGelu) {
      expect_near(aux_after[at], expected, at);
      expected = reference::Gelu(expected);
    }
    if (epilogue == Epilogue::kGeluGrad) expected *= reference::GeluGrad(aux_before[at]);
    expect_near(c_after[at], expected, at);
  }
}

TEST(MatMulTest, ProductsOfEveryLayoutAndShapeMatchTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const ProductShape& shape : kMatMulShapes) {
      for (const MatMulLayout layout : kMatMulLayouts) {
        ExpectEpilogue(*backend, shape, layout, Epilogue::kNone, false);
        ExpectEpilogue(*backend, shape, layout, Epilogue::kNone, true);
      }
    }
  }
}

TEST(MatMulTest, EpiloguesMatchTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const ProductShape& shape : kMatMulShapes) {
      ExpectEpilogue(*backend, shape, MatMulLayout::kNT, Epilogue::kBias, false);
      ExpectEpilogue(*backend, shape, MatMulLayout::kNT, Epilogue::kBiasGelu, false);
      ExpectEpilogue(*backend, shape, MatMulLayout::kNT, Epilogue::kBiasGelu, false,
                     /*may_have_bias=*/false);
      ExpectEpilogue(*backend, shape, MatMulLayout::kNN, Epilogue::kGeluGrad, false);
    }
  }
}

TEST(MatMulTest, OverwritingIgnoresWhatWasThere) {
  const auto backend = MakeCpuBackend(1);
  const DeviceFloats a(*backend, Floats{1, 2}), b(*backend, Floats{3, 4});
  const DeviceFloats c(*backend, Floats{std::numeric_limits<float>::quiet_NaN()});
  backend->MatMul({.a = a, .b = b, .c = c, .m = 1, .n = 1, .k = 2, .lda = 2, .ldb = 2, .ldc = 1});
  EXPECT_EQ(c.Values(), Floats{11});
}

TEST(MatMulTest, ANotANumberReachesItsRowThroughGelu) {
  const auto backend = MakeCpuBackend(3);
  constexpr int64_t kSize = 64;
  Floats a_values = RandomFloats(kSize * kSize, 1);
  a_values[5 * kSize + 7] = std::numeric_limits<float>::quiet_NaN();
  const DeviceFloats a(*backend, a_values), b(*backend, RandomFloats(kSize * kSize, 2));
  const DeviceFloats bias(*backend, Floats(kSize, 0.5F));
  const DeviceFloats c = Unset(*backend, kSize * kSize), aux = Unset(*backend, kSize * kSize);
  backend->MatMul({.a = a,
                   .b = b,
                   .c = c,
                   .m = kSize,
                   .n = kSize,
                   .k = kSize,
                   .lda = kSize,
                   .ldb = kSize,
                   .ldc = kSize,
                   .epilogue = Epilogue::kBiasGelu,
                   .bias = bias,
                   .aux = aux});
  const Floats values = c.Values();
  for (int64_t i = 0; i < kSize * kSize; ++i) {
    EXPECT_EQ(std::isnan(values[i]), i / kSize == 5) << "row " << i / kSize;
  }
}

}  // namespace
}  // namespace tessera::kernels::testing
