// Planted faults that the cuBLASLt double must refuse, by what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cuda_emulation/cublaslt/diagnosis.h"
#include "tests/cuda_emulation/cublaslt_product.h"

namespace tessera::cuda_emulation::testing {
namespace {

using ::testing::HasSubstr;

// D = A B of 16 x 16 matrices with room behind each, in one type.
struct Square {
  explicit Square(cudaDataType_t type = CUDA_R_16BF, int64_t size = 16)
      : a(type, size, size, size, 1), b(type, size, size, size, 2), d(type, size, size, size, 3) {}

  // Calls the library with other pointers than the matrices' own where they are given.
  cublasStatus_t Call(const cublasLtMatmulAlgo_t* algo, const void* a_data, const void* b_data,
                      void* d_data, void* workspace = nullptr, size_t workspace_bytes = 0) {
    return cublasLtMatmul(product.handle, product.desc, &product.alpha, a_data, a.layout, b_data,
                          b.layout, &product.beta, d_data, d.layout, d_data, d.layout, algo,
                          workspace, workspace_bytes, product.stream);
  }

  Matrix a, b, d;
  Product product;
};

void ExpectRefusal(cublasStatus_t status, cublasStatus_t expected, const std::string& reason) {
  EXPECT_EQ(status, expected) << reason;
  EXPECT_THAT(cublaslt::LastRefusal(), HasSubstr(reason));
}

TEST(CublasLtRefusalTest, FindsALeadingDimensionBelowTheRows) {
  Square square;
  const Matrix wide(CUDA_R_16BF, 8, 32, 8, 1);  // row-major 16 x 16 taken for column-major 8 x 32
  square.product.Run(wide, square.b, square.d, square.d);
  ExpectRefusal(square.product.status, CUBLAS_STATUS_INVALID_VALUE, "A: stored as 8 x 32");
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 16, 16, 8);
  cublasLtMatmulHeuristicResult_t result;
  int returned = 0;
  ExpectRefusal(cublasLtMatmulAlgoGetHeuristic(square.product.handle, square.product.desc, layout,
                                               square.b.layout, square.d.layout, square.d.layout,
                                               square.product.preference, 1, &result, &returned),
                CUBLAS_STATUS_INVALID_VALUE, "A: leading dimension 8 below its 16 rows");
  cublasLtMatrixLayoutDestroy(layout);
}

TEST(CublasLtRefusalTest, FindsALeadingDimensionThatLeavesTheAllocation) {
  Square square;
  cublasLtMatrixLayoutDestroy(square.a.layout);
  cublasLtMatrixLayoutCreate(&square.a.layout, CUDA_R_16BF, 16, 16, 24);  // stored with 16
  ExpectRefusal(square.product.Run(square.a, square.b, square.d, square.d),
                CUBLAS_STATUS_INVALID_VALUE, "A is not inside one device allocation");
}

TEST(CublasLtRefusalTest, FindsHostPointers) {
  Square square;
  const auto algo = square.product.Heuristic(square.a, square.b, square.d, square.d)[0].algo;
  alignas(256) static char host[16 * 16 * 2];
  ExpectRefusal(square.Call(&algo, square.a.memory->data(), host, square.d.memory->data()),
                CUBLAS_STATUS_INVALID_VALUE, "B is not inside one device allocation");
}

TEST(CublasLtRefusalTest, FindsFreedMemory) {
  Square square;
  const auto algo = square.product.Heuristic(square.a, square.b, square.d, square.d)[0].algo;
  void* freed = nullptr;
  cudaMalloc(&freed, 16 * 16 * 2);
  cudaFree(freed);
  ExpectRefusal(square.Call(&algo, square.a.memory->data(), freed, square.d.memory->data()),
                CUBLAS_STATUS_INVALID_VALUE, "B is not inside one device allocation");
}

TEST(CublasLtRefusalTest, HoldsPointersToThePromisedAlignment) {
  Square square;
  const DeviceArray<char> more(2048);
  auto algo = square.product.Heuristic(square.a, square.b, square.d, square.d)[0].algo;
  ExpectRefusal(
      square.Call(&algo, more.data() + 16, square.b.memory->data(), square.d.memory->data()),
      CUBLAS_STATUS_NOT_SUPPORTED, "A is not aligned to the 256 bytes");
  square.product.PromiseAlignment(16);
  algo = square.product.Heuristic(square.a, square.b, square.d, square.d)[0].algo;
  EXPECT_EQ(square.Call(&algo, more.data() + 16, square.b.memory->data(), square.d.memory->data()),
            CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLtRefusalTest, FindsAMisalignedAux) {
  Square square;
  const DeviceArray<char> aux(2048);
  square.product.SetEpilogue(CUBLASLT_EPILOGUE_GELU_AUX);
  square.product.SetAux(aux.data() + 8, 16);
  EXPECT_TRUE(square.product.Heuristic(square.a, square.b, square.d, square.d).empty());
  ExpectRefusal(square.product.status, CUBLAS_STATUS_NOT_SUPPORTED, "aux pointer is not aligned");
  for (const int64_t ld : {12, 20, 8}) {
    square.product.SetAux(aux.data(), ld);
    square.product.Run(square.a, square.b, square.d, square.d);
    ExpectRefusal(square.product.status, CUBLAS_STATUS_INVALID_VALUE, "leading dimension of aux");
  }
  square.product.SetAux(nullptr, 16);
  square.product.Run(square.a, square.b, square.d, square.d);
  ExpectRefusal(square.product.status, CUBLAS_STATUS_INVALID_VALUE, "aux pointer is null");
  square.product.SetAux(aux.data(), 64);  // 15 * 64 + 16 elements do not fit
  square.product.Run(square.a, square.b, square.d, square.d);
  EXPECT_EQ(square.product.status, CUBLAS_STATUS_SUCCESS);
  square.product.SetAux(aux.data(), 72);
  square.product.Run(square.a, square.b, square.d, square.d);
  ExpectRefusal(square.product.status, CUBLAS_STATUS_INVALID_VALUE, "aux is not inside");
}

TEST(CublasLtRefusalTest, OffersNothingForFusedEpiloguesOnOddRows) {
  for (const cudaDataType_t type : {CUDA_R_16BF, CUDA_R_32F}) {
    const int64_t odd = type == CUDA_R_32F ? 18 : 20;
    Square square(type, odd);
    const DeviceArray<char> aux(8192);
    square.product.SetEpilogue(CUBLASLT_EPILOGUE_GELU_AUX);
    square.product.SetAux(aux.data(), 24);
    EXPECT_TRUE(square.product.Heuristic(square.a, square.b, square.d, square.d).empty());
    EXPECT_EQ(square.product.status, CUBLAS_STATUS_NOT_SUPPORTED);
    square.product.SetEpilogue(CUBLASLT_EPILOGUE_BIAS);
    square.product.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, aux.data());
    EXPECT_FALSE(square.product.Heuristic(square.a, square.b, square.d, square.d).empty());
  }
}

TEST(CublasLtRefusalTest, FindsABadBias) {
  Square square;
  const DeviceArray<char> bias(64);
  square.product.SetEpilogue(CUBLASLT_EPILOGUE_BIAS);
  square.product.Run(square.a, square.b, square.d, square.d);
  ExpectRefusal(square.product.status, CUBLAS_STATUS_INVALID_VALUE, "bias pointer is null");
  square.product.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data() + 2);
  square.product.Run(square.a, square.b, square.d, square.d);
  ExpectRefusal(square.product.status, CUBLAS_STATUS_NOT_SUPPORTED, "bias pointer is not aligned");
  square.product.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data());
  square.product.Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F});
  square.product.Run(square.a, square.b, square.d, square.d);
  ExpectRefusal(square.product.status, CUBLAS_STATUS_NOT_SUPPORTED, "bias is not of the type");
}

TEST(CublasLtRefusalTest, FindsResultsThatOverlapOperands) {
  Square square;
  const auto algo = square.product.Heuristic(square.a, square.b, square.d, square.d)[0].algo;
  ExpectRefusal(
      square.Call(&algo, square.a.memory->data(), square.b.memory->data(), square.a.memory->data()),
      CUBLAS_STATUS_INVALID_VALUE, "A and D overlap");
}

TEST(CublasLtRefusalTest, LetsSlicesOfOneBufferSideBySide) {
  Square square;
  for (cublasLtMatrixLayout_t* layout : {&square.a.layout, &square.d.layout}) {
    cublasLtMatrixLayoutDestroy(*layout);
    cublasLtMatrixLayoutCreate(layout, CUDA_R_16BF, 16, 16, 32);
  }
  const DeviceArray both(std::vector<char>(16 * 32 * 2));
  square.product.PromiseAlignment(16);
  const auto algo = square.product.Heuristic(square.a, square.b, square.d, square.d)[0].algo;
  EXPECT_EQ(square.Call(&algo, both.data(), square.b.memory->data(), both.data() + 32),
            CUBLAS_STATUS_SUCCESS);
  ExpectRefusal(square.Call(&algo, both.data(), square.b.memory->data(), both.data() + 16),
                CUBLAS_STATUS_INVALID_VALUE, "A and D overlap");
}

TEST(CublasLtRefusalTest, TakesCInPlaceWithTheSameLayoutOnly) {
  Square square;
  const Matrix c(CUDA_R_16BF, 16, 16, 24, 4);
  const auto results = square.product.Heuristic(square.a, square.b, c, square.d);
  ASSERT_FALSE(results.empty());
  ExpectRefusal(cublasLtMatmul(square.product.handle, square.product.desc, &square.product.alpha,
                               square.a.memory->data(), square.a.layout, square.b.memory->data(),
                               square.b.layout, &square.product.beta, c.memory->data(), c.layout,
                               c.memory->data(), square.d.layout, &results[0].algo, nullptr, 0,
                               square.product.stream),
                CUBLAS_STATUS_INVALID_VALUE, "D and C overlap without being the same matrix");
}

TEST(CublasLtRefusalTest, TakesAlgorithmsOfTheSameDescriptorsOnly) {
  Square square;
  auto algo = square.product.Heuristic(square.a, square.b, square.d, square.d)[0].algo;
  const auto call = [&](const cublasLtMatmulAlgo_t* which) {
    return square.Call(which, square.a.memory->data(), square.b.memory->data(),
                       square.d.memory->data());
  };
  EXPECT_EQ(call(&algo), CUBLAS_STATUS_SUCCESS);
  ExpectRefusal(call(nullptr), CUBLAS_STATUS_INVALID_VALUE, "no algorithm");
  square.product.Transpose(true, false);
  ExpectRefusal(call(&algo), CUBLAS_STATUS_INVALID_VALUE, "chosen for other descriptors");
  algo = {};
  ExpectRefusal(call(&algo), CUBLAS_STATUS_INVALID_VALUE, "does not come from the heuristic");
}

TEST(CublasLtRefusalTest, ChecksTheWorkspace) {
  Square square(CUDA_R_32F, 128);
  square.product.AllowWorkspace(1 << 22);
  const auto split = square.product.Heuristic(square.a, square.b, square.d, square.d)[1];
  const auto bytes = static_cast<int64_t>(split.workspaceSize);
  ASSERT_GT(bytes, 0);
  const DeviceArray<char> workspace(split.workspaceSize + 256);
  const auto call = [&](char* pointer, int64_t size) {
    return square.Call(&split.algo, square.a.memory->data(), square.b.memory->data(),
                       square.d.memory->data(), pointer, static_cast<size_t>(size));
  };
  EXPECT_EQ(call(workspace.data(), bytes), CUBLAS_STATUS_SUCCESS);
  ExpectRefusal(call(workspace.data(), bytes - 1), CUBLAS_STATUS_INVALID_VALUE, "algorithm needs");
  ExpectRefusal(call(workspace.data() + 16, bytes), CUBLAS_STATUS_INVALID_VALUE,
                "not aligned to 256");
  ExpectRefusal(call(workspace.data() + 256, bytes + 256), CUBLAS_STATUS_INVALID_VALUE,
                "not inside one device allocation");
  ExpectRefusal(call(nullptr, bytes), CUBLAS_STATUS_INVALID_VALUE, "null with a size");
}

TEST(CublasLtRefusalTest, RefusesMixturesOfTypes) {
  const Matrix half(CUDA_R_16F, 16, 16, 16, 1), brain(CUDA_R_16BF, 16, 16, 16, 2);
  const Matrix full(CUDA_R_32F, 16, 16, 16, 3);
  Product product;
  product.Run(half, brain, full, full);
  ExpectRefusal(product.status, CUBLAS_STATUS_NOT_SUPPORTED, "A and B differ");
  product.Run(full, full, brain, brain);
  ExpectRefusal(product.status, CUBLAS_STATUS_NOT_SUPPORTED, "D is neither fp32");
  product.Run(brain, brain, full, brain);
  ExpectRefusal(product.status, CUBLAS_STATUS_NOT_SUPPORTED, "C and D differ");
  Product tf32(CUBLAS_COMPUTE_32F_FAST_TF32);
  tf32.Run(half, half, half, half);
  ExpectRefusal(tf32.status, CUBLAS_STATUS_NOT_SUPPORTED, "TF32");
}

TEST(CublasLtRefusalTest, ChecksTheSizeOfAttributes) {
  Product product;
  const int64_t transpose = CUBLAS_OP_T;  // eight bytes for a value of four
  ExpectRefusal(cublasLtMatmulDescSetAttribute(product.desc, CUBLASLT_MATMUL_DESC_TRANSA,
                                               &transpose, sizeof(transpose)),
                CUBLAS_STATUS_INVALID_VALUE, "value of 8 bytes, the attribute has 4");
}

}  // namespace
}  // namespace tessera::cuda_emulation::testing
