// Matrix products of the CUDA backend: every layout, type, epilogue and kind of size against a
// product in double.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/cuda_backend.h"
#include "tests/cuda_emulation/scopes.h"
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

using base::Epilogue;
using base::MatMulLayout;
using cuda_emulation::cublaslt::AlgorithmKind;

constexpr MatMulLayout kLayouts[] = {MatMulLayout::kNN, MatMulLayout::kNT, MatMulLayout::kTN};

struct ProductShape {
  int64_t m, n, k;
  int64_t gap;     // elements between the rows of a, b and c
  int64_t offset;  // of every array from a multiple of 256 bytes, in elements
};
// The library's vectors fit the first three alone.
constexpr ProductShape kProductShapes[] = {
    {64, 48, 40, 0, 0}, {16, 8, 256, 8, 8},  {130, 72, 24, 16, 0}, {1, 1, 1, 0, 0},
    {1, 57, 33, 3, 1},  {57, 1, 1, 0, 1},    {7, 5, 3, 1, 0},      {30, 97, 64, 3, 2},
    {24, 40, 16, 8, 1}, {129, 33, 31, 5, 3}, {48, 12, 32, 4, 4}};

struct ProductCase {
  MatMulLayout layout = MatMulLayout::kNT;
  DType operand_type = DType::kFloat32, result_type = DType::kFloat32;
  Epilogue epilogue = Epilogue::kNone;
  bool accumulate = false;
  bool has_bias = true;  // of kBiasGelu
};

// A matrix with its rows `stride` apart; between them lies what nothing may read or write.
struct Matrix {
  Matrix(DType dtype, int64_t rows, int64_t columns, const ProductShape& shape, uint32_t seed)
      : num_rows(rows),
        num_columns(columns),
        stride(columns + shape.gap),
        values(Rounded(dtype, RandomDoubles(rows * stride, seed, -2, 2))),
        device(dtype, Poisoned(), shape.offset) {}

  Doubles Poisoned() const {
    Doubles poisoned = values;
    for (int64_t i = 0; i < num_rows; ++i) {
      for (int64_t j = num_columns; j < stride; ++j) poisoned[i * stride + j] = std::nan("");
    }
    return poisoned;
  }
  Doubles Dense(const Doubles& of) const {
    Doubles dense;
    for (int64_t i = 0; i < num_rows; ++i) {
      const auto row = of.begin() + i * stride;
      dense.insert(dense.end(), row, row + num_columns);
    }
    return dense;
  }
  Doubles Dense() const { return Dense(values); }
  // What the device has now; what lies between the rows must still be there.
  Doubles Found() const {
    const Doubles found = device.Values();
    for (int64_t i = 0; i < num_rows; ++i) {
      for (int64_t j = num_columns; j < stride; ++j) {
        EXPECT_TRUE(std::isnan(found[i * stride + j])) << "wrote between rows, row " << i;
      }
    }
    return Dense(found);
  }

  int64_t num_rows, num_columns, stride;
  Doubles values;
  DeviceArray device;
};

double Norm(const Doubles& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

class MatMulTest : public ::testing::TestWithParam<DType> {
 protected:
  MatMulTest() : backend_({.device = 0}), workspace_(kWorkspaceBytes) {
    backend_.AttachWorkspace(workspace_.data(), kWorkspaceBytes);
  }

  void Expect(const ProductShape& shape, const ProductCase& wanted) {
    SCOPED_TRACE(base::Concat("m ", shape.m, " n ", shape.n, " k ", shape.k, " gap ", shape.gap,
                              " offset ", shape.offset, " layout ", static_cast<int>(wanted.layout),
                              " epilogue ", static_cast<int>(wanted.epilogue), " accumulate ",
                              wanted.accumulate));
    const bool is_a_transposed = wanted.layout == MatMulLayout::kTN;
    const bool is_b_transposed = wanted.layout == MatMulLayout::kNT;
    const auto operand = [&](bool transposed, int64_t rows, int64_t columns, uint32_t seed) {
      return Matrix(wanted.operand_type, transposed ? columns : rows, transposed ? rows : columns,
                    shape, seed);
    };
    const Matrix a = operand(is_a_transposed, shape.m, shape.k, 1);
    const Matrix b = operand(is_b_transposed, shape.k, shape.n, 2);
    const Matrix before(wanted.result_type, shape.m, shape.n, shape, 3);
    const Matrix aux(wanted.result_type, shape.m, shape.n, shape, 4);
    const Doubles bias = Rounded(wanted.result_type, RandomDoubles(shape.n, 5));
    const DeviceArray bias_on_device(wanted.result_type, bias, shape.offset);
    const bool has_bias = wanted.epilogue == Epilogue::kBias ||
                          (wanted.epilogue == Epilogue::kBiasGelu && wanted.has_bias);
    const bool has_aux =
        wanted.epilogue == Epilogue::kBiasGelu || wanted.epilogue == Epilogue::kGeluGrad;
    backend_.MatMul({.a = a.device,
                     .b = b.device,
                     .c = before.device,
                     .m = shape.m,
                     .n = shape.n,
                     .k = shape.k,
                     .lda = a.stride,
                     .ldb = b.stride,
                     .ldc = before.stride,
                     .layout = wanted.layout,
                     .accumulate = wanted.accumulate,
                     .epilogue = wanted.epilogue,
                     .bias = has_bias ? ConstArray(bias_on_device) : ConstArray(),
                     .aux = has_aux ? Array(aux.device) : Array()});
    backend_.Synchronize();
    Doubles expected =
        reference::MatMul(wanted.layout, shape.m, shape.n, shape.k, a.Dense(), b.Dense());
    const Doubles c_before = before.Dense();
    const Doubles aux_before = aux.Dense();
    Doubles expected_aux(expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      if (wanted.accumulate) expected[i] += c_before[i];
      if (has_bias) expected[i] += bias[i % static_cast<size_t>(shape.n)];
      expected_aux[i] = expected[i];
      if (wanted.epilogue == Epilogue::kBiasGelu) expected[i] = reference::Gelu(expected[i]);
      if (wanted.epilogue == Epilogue::kGeluGrad) {
        expected[i] *= reference::GeluGrad(aux_before[i]);
      }
    }
    const double tolerance = ToleranceOf(wanted.result_type);
    // Far left GELU is small beside its argument, whose rounding shows in full: both are the scale.
    const double scale = 1 + Norm(expected_aux) / Norm(expected);
    ExpectClose(before.Found(), expected,
                wanted.epilogue == Epilogue::kBiasGelu ? tolerance * scale : tolerance, "c");
    if (wanted.epilogue == Epilogue::kBiasGelu) {
      ExpectClose(aux.Found(), expected_aux, tolerance, "aux");
    }
  }

  static constexpr int64_t kWorkspaceBytes = int64_t{12} << 20;
  CudaBackend backend_;
  cuda::DeviceMemory workspace_;
};

TEST_P(MatMulTest, EveryLayoutAndShapeMatchesTheReferenceWithEveryAlgorithm) {
  for (const AlgorithmKind kind :
       {AlgorithmKind::kVector, AlgorithmKind::kSplitK, AlgorithmKind::kScalar}) {
    const cuda_emulation::Scope preferred = cuda_emulation::WithAlgorithm(kind);
    backend_.AttachWorkspace(workspace_.data(), kWorkspaceBytes);  // forgets what it has chosen
    for (const ProductShape& shape : kProductShapes) {
      for (const MatMulLayout layout : kLayouts) {
        Expect(shape, {.layout = layout, .operand_type = GetParam(), .result_type = GetParam()});
      }
    }
  }
}

TEST_P(MatMulTest, WeightGradientsAddUpInFp32) {
  for (const ProductShape& shape : kProductShapes) {
    Expect(shape, {.layout = MatMulLayout::kTN, .operand_type = GetParam(), .accumulate = true});
    Expect(shape, {.layout = MatMulLayout::kTN, .operand_type = GetParam(), .accumulate = false});
  }
}

TEST_P(MatMulTest, EpiloguesMatchTheReferenceFusedOrNot) {
  for (const DType result_type : {GetParam(), DType::kFloat32}) {
    for (const ProductShape& shape : kProductShapes) {
      ProductCase wanted = {.operand_type = GetParam(), .result_type = result_type};
      wanted.epilogue = Epilogue::kBias;
      Expect(shape, wanted);
      wanted.epilogue = Epilogue::kBiasGelu;
      Expect(shape, wanted);
      wanted.has_bias = false;
      Expect(shape, wanted);
      wanted.layout = MatMulLayout::kNN;
      wanted.epilogue = Epilogue::kGeluGrad;
      Expect(shape, wanted);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MatMulTest, kFloatTypes, TypeName);

TEST(CublasLtMatMulTest, EpiloguesAreFusedWhereSizesAndPointersPermit) {
  const CudaBackend backend({.device = 0});
  CublasLtMatMul matmul(/*allow_tf32=*/false);
  const auto is_fused = [&](int64_t n, int64_t offset, Epilogue epilogue) {
    const DeviceArray a(DType::kBFloat16, Doubles(16 * 8)), b(DType::kBFloat16, Doubles(n * 8));
    const DeviceArray c(DType::kBFloat16, Doubles(16 * n), offset);
    const DeviceArray aux(DType::kBFloat16, Doubles(16 * n)), bias(DType::kBFloat16, Doubles(n));
    const bool fused = matmul.Run({.a = a,
                                   .b = b,
                                   .c = c,
                                   .m = 16,
                                   .n = n,
                                   .k = 8,
                                   .lda = 8,
                                   .ldb = 8,
                                   .ldc = n,
                                   .epilogue = epilogue,
                                   .bias = epilogue == Epilogue::kGeluGrad ? nullptr : Array(bias),
                                   .aux = epilogue == Epilogue::kBias ? nullptr : Array(aux)},
                                  backend.stream());
    CheckCuda(cudaStreamSynchronize(backend.stream()), "cudaStreamSynchronize");
    return fused;
  };
  for (const Epilogue epilogue : {Epilogue::kBias, Epilogue::kBiasGelu, Epilogue::kGeluGrad}) {
    EXPECT_TRUE(is_fused(24, 0, epilogue)) << static_cast<int>(epilogue);
  }
  for (const Epilogue epilogue : {Epilogue::kBiasGelu, Epilogue::kGeluGrad}) {
    EXPECT_FALSE(is_fused(20, 0, epilogue)) << static_cast<int>(epilogue);
    EXPECT_FALSE(is_fused(24, 1, epilogue)) << static_cast<int>(epilogue);
  }
}

TEST(CublasLtMatMulTest, TensorFloatsRoundOnlyWhereAllowed) {
  const CudaBackend backend({.device = 0});
  // 1 + 2^-12 has more bits than TF32 keeps, and 2^-12 is left of it after subtracting 1.
  const double fine = 1 + std::ldexp(1.0, -12);
  const DeviceArray a = Floats({fine, 1}), b = Floats({1, -1});
  for (const bool allow_tf32 : {false, true}) {
    CublasLtMatMul matmul(allow_tf32);
    const DeviceArray c = PoisonFloats(1);
    EXPECT_TRUE(
        matmul.Run({.a = a, .b = b, .c = c, .m = 1, .n = 1, .k = 2, .lda = 2, .ldb = 2, .ldc = 1},
                   backend.stream()));
    EXPECT_EQ(c.Values()[0], allow_tf32 ? 0 : fine - 1);
  }
}

// The rows that a router sends change from step to step: shapes are let go, and come again.
TEST(CublasLtMatMulTest, AnyNumberOfShapesPassesBy) {
  constexpr int64_t kMostRows = 1100;
  const CudaBackend backend({.device = 0});
  CublasLtMatMul matmul(/*allow_tf32=*/false);
  const DeviceArray a = Floats(Doubles(kMostRows, 3)), b = Floats({2});
  for (const int64_t first : {kMostRows, int64_t{2}}) {
    const DeviceArray c = PoisonFloats(kMostRows);
    for (int64_t rows = first; rows > 0; --rows) {
      EXPECT_TRUE(matmul.Run(
          {.a = a, .b = b, .c = c, .m = rows, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1},
          backend.stream()));
    }
    const Doubles found = c.Values();
    for (int64_t row = 0; row < first; ++row) ASSERT_EQ(found[row], 6) << row;
  }
}

TEST(CublasLtMatMulTest, ARefusedProductIsNamedWithItsShape) {
  const CudaBackend backend({.device = 0});
  CublasLtMatMul matmul(/*allow_tf32=*/false);
  const DeviceArray a(DType::kBFloat16, Doubles(16)), c(DType::kBFloat16, Doubles(16));
  std::string message;
  try {
    // The library wants no operand of more rows than the distance between its columns.
    (void)matmul.Run({.a = a, .b = a, .c = c, .m = 4, .n = 4, .k = 4, .lda = 2, .ldb = 4, .ldc = 4},
                     backend.stream());
  } catch (const base::SystemError& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("cublasLt"), std::string::npos) << message;
  EXPECT_NE(message.find("CUBLAS_STATUS_"), std::string::npos) << message;
  EXPECT_NE(message.find("m 4, n 4, k 4, lda 2"), std::string::npos) << message;
}

}  // namespace
}  // namespace tessera::kernels::cuda::testing
