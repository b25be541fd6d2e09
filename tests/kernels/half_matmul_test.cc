#include "tests/kernels/half_test.h"
#include "tests/kernels/test_shapes.h"

namespace tessera::kernels::testing {
namespace {

using base::Epilogue;
using base::MatMulLayout;

// 384 rows, columns or terms are the most that is converted at a time; the last shape is also
// enough work for several threads.
constexpr ProductShape kHalfMatMulShapes[] = {{1, 1, 1},    {7, 13, 5},    {390, 17, 10},
                                              {9, 400, 12}, {11, 20, 800}, {400, 140, 70}};
constexpr int64_t kHalfGap = 3;

class HalfMatMulTest : public HalfTest {
 protected:
  // One product between arrays with gaps between their rows. `c_dtype` is the type of the result
  // and of what the epilogue keeps.
  void ExpectProduct(const ProductShape& shape, MatMulLayout layout, DType c_dtype, bool accumulate,
                     Epilogue epilogue) {
    const auto [m, n, k] = shape;
    const std::string what =
        base::Concat("m ", m, " n ", n, " k ", k, " layout ", static_cast<int>(layout),
                     " accumulate ", accumulate, " epilogue ", static_cast<int>(epilogue));
    const int64_t a_cols = layout == MatMulLayout::kTN ? m : k;
    const int64_t b_cols = layout == MatMulLayout::kNT ? k : n;
    const Doubles a = Random(m * k, 1), b = Random(n * k, 2), bias = Random(n, 3);
    const Doubles before = Random(m * n, 4), aux_before = Random(m * n, 5);
    const bool has_bias = epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasGelu;
    const bool has_aux = epilogue == Epilogue::kBiasGelu || epilogue == Epilogue::kGeluGrad;
    const TypedArray device_a = Half(WithGaps(a, a_cols)), device_b = Half(WithGaps(b, b_cols));
    const TypedArray device_bias = Half(bias);
    const TypedArray c(backend(), c_dtype, WithGaps(before, n));
    const TypedArray aux(backend(), c_dtype, WithGaps(aux_before, n));
    backend().MatMul({.a = device_a,
                      .b = device_b,
                      .c = c,
                      .m = m,
                      .n = n,
                      .k = k,
                      .lda = a_cols + kHalfGap,
                      .ldb = b_cols + kHalfGap,
                      .ldc = n + kHalfGap,
                      .layout = layout,
                      .accumulate = accumulate,
                      .epilogue = epilogue,
                      .bias = has_bias ? ConstArray(device_bias) : ConstArray(),
                      .aux = has_aux ? Array(aux) : Array()});
    Doubles expected = reference::MatMul(layout, m, n, k, a, b);
    Doubles expected_aux = aux_before;
    for (int64_t i = 0; i < m * n; ++i) {
      if (accumulate) expected[i] += before[i];
      if (has_bias) expected[i] += bias[i % n];
      if (epilogue == Epilogue::kBiasGelu) expected_aux[i] = expected[i];
      if (epilogue == Epilogue::kBiasGelu) expected[i] = reference::Gelu(expected[i]);
      if (epilogue == Epilogue::kGeluGrad) expected[i] *= reference::GeluGrad(aux_before[i]);
    }
    ExpectClose(WithoutGaps(c.Values(), n, what), expected, what);
    ExpectClose(WithoutGaps(aux.Values(), n, what), expected_aux, what + " aux");
  }

 private:
  static constexpr double kBetween = 77;

  static Doubles WithGaps(const Doubles& values, int64_t num_cols) {
    Doubles result;
    for (size_t row = 0; row < values.size() / num_cols; ++row) {
      const auto begin = values.begin() + static_cast<int64_t>(row) * num_cols;
      result.insert(result.end(), begin, begin + num_cols);
      result.insert(result.end(), kHalfGap, kBetween);
    }
    return result;
  }

  // What lies between the rows must be as it was.
  static Doubles WithoutGaps(const Doubles& values, int64_t num_cols, const std::string& what) {
    Doubles result;
    for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
      if (i % (num_cols + kHalfGap) < num_cols) {
        result.push_back(values[i]);
      } else if (values[i] != kBetween) {
        ADD_FAILURE() << what << ": wrote between rows at " << i;
      }
    }
    return result;
  }
};

TEST_P(HalfMatMulTest, ProductsOfEveryLayoutMatchTheReference) {
  for (const ProductShape& shape : kHalfMatMulShapes) {
    for (const MatMulLayout layout : kMatMulLayouts) {
      ExpectProduct(shape, layout, dtype(), false, Epilogue::kNone);
      ExpectProduct(shape, layout, DType::kFloat32, false, Epilogue::kNone);
    }
  }
}

TEST_P(HalfMatMulTest, WeightGradientsAddUpInFloats) {
  for (const ProductShape& shape : kHalfMatMulShapes) {
    for (const MatMulLayout layout : kMatMulLayouts) {
      ExpectProduct(shape, layout, DType::kFloat32, true, Epilogue::kNone);
      ExpectProduct(shape, layout, dtype(), true, Epilogue::kNone);
    }
  }
}

TEST_P(HalfMatMulTest, EpiloguesMatchTheReference) {
  for (const ProductShape& shape : kHalfMatMulShapes) {
    ExpectProduct(shape, MatMulLayout::kNT, dtype(), false, Epilogue::kBias);
    ExpectProduct(shape, MatMulLayout::kNT, dtype(), false, Epilogue::kBiasGelu);
    ExpectProduct(shape, MatMulLayout::kNN, dtype(), false, Epilogue::kGeluGrad);
  }
}

// The product is the smallest odd number beyond the type's integers. Rounded before the bias it
// would lose its 1, and the result be odd.
TEST_P(HalfMatMulTest, TheResultIsRoundedOnceBehindTheEpilogue) {
  const double even = dtype() == DType::kBFloat16 ? 256 : 2048;
  const TypedArray a = Half({even, 1}), b = Half({1, 1}), bias = Half({-1}), c = UnsetHalf(1);
  backend().MatMul({.a = a,
                    .b = b,
                    .c = c,
                    .m = 1,
                    .n = 1,
                    .k = 2,
                    .lda = 2,
                    .ldb = 2,
                    .ldc = 1,
                    .epilogue = Epilogue::kBias,
                    .bias = bias});
  EXPECT_EQ(c.Values(), Doubles({even}));
}

// Of two thousand terms, more than a piece holds, each far below the sum's last bit.
TEST_P(HalfMatMulTest, SmallTermsAreNotLost) {
  constexpr int64_t kNumTerms = 2049;
  Doubles ones(kNumTerms, 1);
  Doubles terms(kNumTerms, std::ldexp(1, -11));
  terms[0] = 1;
  const TypedArray a = Half(ones), b = Half(terms), c = UnsetHalf(1);
  backend().MatMul({.a = a,
                    .b = b,
                    .c = c,
                    .m = 1,
                    .n = 1,
                    .k = kNumTerms,
                    .lda = kNumTerms,
                    .ldb = kNumTerms,
                    .ldc = 1});
  EXPECT_EQ(c.Values(), Doubles({2}));
}

TESSERA_HALF_SUITE(HalfMatMulTest);

}  // namespace
}  // namespace tessera::kernels::testing
