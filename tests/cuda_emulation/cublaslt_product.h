// A product for the tests of the cuBLASLt double: matrices with NaN in their padding, descriptors,
// the call, and the same in double.
#pragma once

#include <cublasLt.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/cuda_emulation/cublaslt/descriptors.h"
#include "tests/cuda_emulation/doubles_testing.h"

namespace tessera::cuda_emulation::testing {

// Column-major matrices in device memory, `batches` of them `stride` elements apart.
struct Matrix {
  Matrix(cudaDataType_t matrix_type, int64_t num_rows, int64_t num_cols, int64_t leading, int seed,
         int num_batches = 1, int64_t batch_stride = 0)
      : type(matrix_type),
        rows(num_rows),
        cols(num_cols),
        ld(leading),
        batches(num_batches),
        stride(batch_stride),
        values(static_cast<size_t>((batches - 1) * stride + (cols - 1) * ld + rows),
               std::numeric_limits<float>::quiet_NaN()) {
    const std::vector<float> numbers = RandomNumbers(batches * rows * cols, seed, format());
    for (int64_t i = 0; i < batches * rows * cols; ++i) {
      values[Index(i / (rows * cols), i % rows, i / rows % cols)] = numbers[i];
    }
    memory = std::make_unique<DeviceArray<char>>(Encode(values, format()));
    cublasLtMatrixLayoutCreate(&layout, type, rows, cols, ld);
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                     sizeof(batches));
    cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                     sizeof(stride));
  }
  ~Matrix() { cublasLtMatrixLayoutDestroy(layout); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  NumberFormat format() const { return *cublaslt::FormatOf(type); }
  size_t Index(int64_t batch, int64_t row, int64_t col) const {
    return static_cast<size_t>(batch * stride + col * ld + row);
  }
  // As given, from the host's copy.
  double Given(int64_t batch, int64_t row, int64_t col) const {
    return values[Index(batch, row, col)];
  }
  // All of it as it is on the device now.
  std::vector<float> Now() const { return Decode(memory->Get(), format()); }

  cudaDataType_t type;
  int64_t rows, cols, ld;
  int32_t batches;
  int64_t stride;
  std::vector<float> values;  // with the padding
  std::unique_ptr<DeviceArray<char>> memory;
  cublasLtMatrixLayout_t layout = nullptr;
};

inline Matrix Stored(cudaDataType_t type, bool transposed, int64_t rows, int64_t cols,
                     int64_t padding, int seed) {
  if (transposed) std::swap(rows, cols);
  return Matrix(type, rows, cols, rows + padding, seed);
}

// Descriptors and settings of a call. Members may be changed until it runs.
struct Product {
  explicit Product(cublasComputeType_t compute = CUBLAS_COMPUTE_32F) {
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F);
    cublasLtMatmulPreferenceCreate(&preference);
  }
  ~Product() {
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  void Transpose(bool a, bool b) {
    Set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{a ? CUBLAS_OP_T : CUBLAS_OP_N});
    Set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{b ? CUBLAS_OP_T : CUBLAS_OP_N});
  }
  void SetEpilogue(cublasLtEpilogue_t epilogue) {
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue));
  }
  void SetAux(void* pointer, int64_t ld) {
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointer);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
  }
  void PromiseAlignment(uint32_t bytes) {
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &bytes, sizeof(bytes));
    }
  }
  void AllowWorkspace(uint64_t bytes) {
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof(bytes));
  }

  // Up to `requested` results of the heuristic.
  std::vector<cublasLtMatmulHeuristicResult_t> Heuristic(const Matrix& a, const Matrix& b,
                                                         const Matrix& c, const Matrix& d,
                                                         int requested = 8) {
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(requested));
    int returned = 0;
    status = cublasLtMatmulAlgoGetHeuristic(handle, desc, a.layout, b.layout, c.layout, d.layout,
                                            preference, requested, results.data(), &returned);
    results.resize(static_cast<size_t>(returned));
    return results;
  }

  // Heuristic and call; the stream has run it on return. The status is the first that is no
  // success.
  cublasStatus_t Run(const Matrix& a, const Matrix& b, const Matrix& c, const Matrix& d) {
    const auto results = Heuristic(a, b, c, d, 1);
    if (results.empty()) return status;
    return Run(a, b, c, d, results[0]);
  }
  cublasStatus_t Run(const Matrix& a, const Matrix& b, const Matrix& c, const Matrix& d,
                     const cublasLtMatmulHeuristicResult_t& result) {
    DeviceArray<char> workspace(result.workspaceSize + 256);
    status = cublasLtMatmul(handle, desc, &alpha, a.memory->data(), a.layout, b.memory->data(),
                            b.layout, &beta, c.memory->data(), c.layout, d.memory->data(), d.layout,
                            &result.algo, workspace.data(), result.workspaceSize, stream);
    Synchronize(stream);
    return status;
  }

  TestStream stream;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  float alpha = 1.0f;
  float beta = 0.0f;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
};

// op(A) * op(B) of one batch in double, row-major in the result's [row][col].
inline std::vector<std::vector<double>> ReferenceProduct(const Matrix& a, bool transpose_a,
                                                         const Matrix& b, bool transpose_b,
                                                         int64_t batch = 0) {
  const int64_t m = transpose_a ? a.cols : a.rows, k = transpose_a ? a.rows : a.cols;
  const int64_t n = transpose_b ? b.rows : b.cols;
  std::vector<std::vector<double>> product(m, std::vector<double>(n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) {
        product[i][j] += (transpose_a ? a.Given(batch, l, i) : a.Given(batch, i, l)) *
                         (transpose_b ? b.Given(batch, j, l) : b.Given(batch, l, j));
      }
    }
  }
  return product;
}

// ||now - expected|| / ||expected|| of one batch; infinity where the padding was written to.
inline double RelativeError(const Matrix& matrix, const std::vector<std::vector<double>>& expected,
                            int64_t batch = 0) {
  const std::vector<float> now = matrix.Now();
  double squares = 0, difference = 0;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (int64_t col = 0; col < matrix.cols; ++col) {
      const double value = now[matrix.Index(batch, row, col)];
      squares += expected[row][col] * expected[row][col];
      difference += (value - expected[row][col]) * (value - expected[row][col]);
    }
  }
  for (size_t i = 0; i < now.size(); ++i) {
    if (std::isnan(matrix.values[i]) && !std::isnan(now[i])) return INFINITY;
  }
  return std::sqrt(difference / squares);
}

// The error of one rounding to the type of D, and of fp32 sums.
inline double Tolerance(cudaDataType_t type) {
  return type == CUDA_R_32F ? 1e-6 : type == CUDA_R_16BF ? 2.5e-3 : 4e-4;
}

}  // namespace tessera::cuda_emulation::testing
