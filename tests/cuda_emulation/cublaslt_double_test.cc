// Products and epilogues of the cuBLASLt double against the same in double.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/cuda_emulation/cublaslt/algorithm.h"
#include "tests/cuda_emulation/cublaslt_product.h"

namespace tessera::cuda_emulation::testing {
namespace {

using Rows = std::vector<std::vector<double>>;

struct Types {
  cudaDataType_t operands;
  cudaDataType_t result;
};
constexpr Types kTypes[] = {{CUDA_R_32F, CUDA_R_32F},
                            {CUDA_R_16BF, CUDA_R_16BF},
                            {CUDA_R_16BF, CUDA_R_32F},
                            {CUDA_R_16F, CUDA_R_16F},
                            {CUDA_R_16F, CUDA_R_32F}};
constexpr int64_t kM = 24, kN = 16, kK = 136;

double GeluReference(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(CublasLtDoubleTest, MultipliesInEveryTypeTransposeAndLeadingDimension) {
  for (const Types& types : kTypes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      const bool transpose_a = transposes & 1, transpose_b = transposes & 2;
      for (const int64_t padding : {0, 8}) {
        const Matrix a = Stored(types.operands, transpose_a, kM, kK, padding, 1);
        const Matrix b = Stored(types.operands, transpose_b, kK, kN, 2 * padding, 2);
        const Matrix d(types.result, kM, kN, kM + 3 * padding, 3);
        Product product;
        product.Transpose(transpose_a, transpose_b);
        ASSERT_EQ(product.Run(a, b, d, d), CUBLAS_STATUS_SUCCESS);
        EXPECT_LT(RelativeError(d, ReferenceProduct(a, transpose_a, b, transpose_b)),
                  Tolerance(types.result))
            << types.operands << " to " << types.result << " transposes " << transposes;
      }
    }
  }
}

TEST(CublasLtDoubleTest, ScalesAndAddsToWhatWasThere) {
  for (const Types& types : kTypes) {
    for (const bool in_place : {true, false}) {
      const Matrix a(types.operands, kM, kK, kM, 1), b(types.operands, kK, kN, kK, 2);
      const Matrix c(types.result, kM, kN, kM, 3), other(types.result, kM, kN, kM + 8, 4);
      const Matrix& d = in_place ? c : other;
      Product product;
      product.alpha = 0.5f;
      product.beta = -2.0f;
      ASSERT_EQ(product.Run(a, b, c, d), CUBLAS_STATUS_SUCCESS);
      Rows expected = ReferenceProduct(a, false, b, false);
      for (int64_t i = 0; i < kM; ++i) {
        for (int64_t j = 0; j < kN; ++j) {
          expected[i][j] = 0.5 * expected[i][j] - 2 * c.Given(0, i, j);
        }
      }
      EXPECT_LT(RelativeError(d, expected), Tolerance(types.result)) << in_place;
    }
  }
}

TEST(CublasLtDoubleTest, DoesNotReadCWhereBetaIsZero) {
  const Matrix a(CUDA_R_32F, 8, 8, 8, 1), b(CUDA_R_32F, 8, 8, 8, 2), d(CUDA_R_32F, 8, 8, 8, 3);
  d.memory->Set(Encode(std::vector<float>(64, NAN), d.format()));
  Product product;
  ASSERT_EQ(product.Run(a, b, d, d), CUBLAS_STATUS_SUCCESS);
  EXPECT_LT(RelativeError(d, ReferenceProduct(a, false, b, false)), 1e-6);
}

TEST(CublasLtDoubleTest, TakesOddShapesWhereAlignmentIsNotPromised) {
  const Matrix a(CUDA_R_16BF, 5, 7, 5, 1), b(CUDA_R_16BF, 7, 3, 7, 2), d(CUDA_R_16BF, 5, 3, 9, 3);
  Product product;
  product.PromiseAlignment(2);
  ASSERT_EQ(product.Run(a, b, d, d), CUBLAS_STATUS_SUCCESS);
  EXPECT_LT(RelativeError(d, ReferenceProduct(a, false, b, false)), 5e-3);
}

TEST(CublasLtDoubleTest, MultipliesBatchesBySides) {
  const int batches = 3;
  const Matrix a(CUDA_R_16F, kM, kK, kM, 1, batches, kM * kK + 8);
  const Matrix shared(CUDA_R_16F, kK, kN, kK, 2, batches, 0);             // one B for all
  const Matrix beside(CUDA_R_32F, kM, kN, batches * kM, 3, batches, kM);  // as heads side by side
  Product product;
  ASSERT_EQ(product.Run(a, shared, beside, beside), CUBLAS_STATUS_SUCCESS);
  for (int batch = 0; batch < batches; ++batch) {
    EXPECT_LT(RelativeError(beside, ReferenceProduct(a, false, shared, false, batch), batch), 1e-6);
  }
}

TEST(CublasLtDoubleTest, AddsABiasToEveryColumn) {
  for (const Types& types : kTypes) {
    const Matrix a(types.operands, kM, kK, kM, 1), b(types.operands, kK, kN, kK, 2);
    const Matrix d(types.result, kM, kN, kM, 3), bias(types.result, kM, 1, kM, 4);
    Product product;
    product.SetEpilogue(CUBLASLT_EPILOGUE_BIAS);
    product.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.memory->data());
    product.Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{types.result});
    ASSERT_EQ(product.Run(a, b, d, d), CUBLAS_STATUS_SUCCESS);
    Rows expected = ReferenceProduct(a, false, b, false);
    for (int64_t i = 0; i < kM; ++i) {
      for (double& value : expected[i]) value += bias.Given(0, i, 0);
    }
    EXPECT_LT(RelativeError(d, expected), Tolerance(types.result));
  }
}

TEST(CublasLtDoubleTest, AppliesGeluAndKeepsItsInput) {
  for (const Types& types : kTypes) {
    for (const bool with_bias : {true, false}) {
      const Matrix a(types.operands, kM, kK, kM, 1), b(types.operands, kK, kN, kK, 2);
      const Matrix d(types.result, kM, kN, kM, 3), bias(types.result, kM, 1, kM, 4);
      const Matrix aux(types.result, kM, kN, kM + 8, 5);
      Product product;
      product.SetEpilogue(with_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX);
      product.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.memory->data());
      product.SetAux(aux.memory->data(), aux.ld);
      product.Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t{types.result});
      ASSERT_EQ(product.Run(a, b, d, d), CUBLAS_STATUS_SUCCESS);
      Rows input = ReferenceProduct(a, false, b, false), output = input;
      for (int64_t i = 0; i < kM; ++i) {
        for (int64_t j = 0; j < kN; ++j) {
          if (with_bias) input[i][j] += bias.Given(0, i, 0);
          output[i][j] = GeluReference(input[i][j]);
        }
      }
      EXPECT_LT(RelativeError(aux, input), Tolerance(types.result)) << with_bias;
      EXPECT_LT(RelativeError(d, output), Tolerance(types.result)) << with_bias;
    }
  }
}

TEST(CublasLtDoubleTest, MultipliesByTheDerivativeOfGelu) {
  for (const Types& types : kTypes) {
    const Matrix a(types.operands, kM, kK, kM, 1), b(types.operands, kK, kN, kK, 2);
    const Matrix d(types.result, kM, kN, kM, 3), aux(types.result, kM, kN, kM + 8, 5);
    Product product;
    product.SetEpilogue(CUBLASLT_EPILOGUE_DGELU);
    product.SetAux(aux.memory->data(), aux.ld);
    ASSERT_EQ(product.Run(a, b, d, d), CUBLAS_STATUS_SUCCESS);
    Rows expected = ReferenceProduct(a, false, b, false);
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        const double x = aux.Given(0, i, j), step = 1e-5;
        expected[i][j] *= (GeluReference(x + step) - GeluReference(x - step)) / (2 * step);
      }
    }
    EXPECT_LT(RelativeError(d, expected), Tolerance(types.result));
  }
}

TEST(CublasLtDoubleTest, OffersAlgorithmsThatAgreeWithinRoundingAndSpoilTheirWorkspace) {
  const Matrix a(CUDA_R_32F, kM, kK, kM, 1), b(CUDA_R_32F, kK, kN, kK, 2);
  const Matrix d(CUDA_R_32F, kM, kN, kM, 3);
  Product product;
  const Scope preferred = WithAlgorithm(cublaslt::AlgorithmKind::kVector);
  EXPECT_EQ(product.Heuristic(a, b, d, d).size(), 2u) << "without workspace";
  product.AllowWorkspace(1 << 20);
  const auto results = product.Heuristic(a, b, d, d);
  ASSERT_EQ(results.size(), 3u);
  for (const auto& result : results) {
    EXPECT_EQ(product.Run(a, b, d, d, result), CUBLAS_STATUS_SUCCESS);
    EXPECT_LT(RelativeError(d, ReferenceProduct(a, false, b, false)), 1e-6);
  }
  const auto& split = results[1];
  ASSERT_GT(split.workspaceSize, 0u);
  const DeviceArray workspace(std::vector<char>(split.workspaceSize + 4, 7));
  ASSERT_EQ(cublasLtMatmul(product.handle, product.desc, &product.alpha, a.memory->data(), a.layout,
                           b.memory->data(), b.layout, &product.beta, d.memory->data(), d.layout,
                           d.memory->data(), d.layout, &split.algo, workspace.data(),
                           split.workspaceSize, product.stream),
            CUBLAS_STATUS_SUCCESS);
  Synchronize(product.stream);
  const std::vector<char> bytes = workspace.Get();
  EXPECT_EQ(bytes[0], char(0xFF));
  EXPECT_EQ(bytes[split.workspaceSize - 1], char(0xFF));
  EXPECT_EQ(bytes[split.workspaceSize], 7);
}

TEST(CublasLtDoubleTest, OffersThePreferredAlgorithmFirst) {
  const Matrix a(CUDA_R_32F, kM, kK, kM, 1), b(CUDA_R_32F, kK, kN, kK, 2);
  const Matrix d(CUDA_R_32F, kM, kN, kM, 3);
  Product product;
  product.AllowWorkspace(1 << 20);
  for (const auto kind : {cublaslt::AlgorithmKind::kVector, cublaslt::AlgorithmKind::kSplitK}) {
    const Scope preferred = WithAlgorithm(kind);
    EXPECT_EQ(product.Heuristic(a, b, d, d, 1)[0].workspaceSize > 0,
              kind == cublaslt::AlgorithmKind::kSplitK);
  }
}

TEST(CublasLtDoubleTest, RoundsOperandsToTf32WhereAsked) {
  const Matrix a(CUDA_R_32F, kM, kK, kM, 1), b(CUDA_R_32F, kK, kN, kK, 2);
  const Matrix d(CUDA_R_32F, kM, kN, kM, 3);
  Product product(CUBLAS_COMPUTE_32F_FAST_TF32);
  ASSERT_EQ(product.Run(a, b, d, d), CUBLAS_STATUS_SUCCESS);
  const double error = RelativeError(d, ReferenceProduct(a, false, b, false));
  EXPECT_LT(error, 1e-3);
  EXPECT_GT(error, 1e-5) << "fp32 kept its 23 bits";
}

TEST(CublasLtDoubleTest, ReadsItsOperandsWhenTheStreamRunsIt) {
  const Scope adversarial = WithStreamOrder(StreamOrder::kAdversarial);
  const Matrix a(CUDA_R_32F, 8, 8, 8, 1), b(CUDA_R_32F, 8, 8, 8, 2), d(CUDA_R_32F, 8, 8, 8, 3);
  float* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 64 * sizeof(float)), cudaSuccess);
  for (int i = 0; i < 64; ++i) pinned[i] = 2 * a.values[i];
  for (const bool with_event : {true, false}) {
    a.memory->Set(Encode(a.values, a.format()));
    Product product;
    const TestStream copies;
    cudaEvent_t copied = nullptr;
    ASSERT_EQ(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming), cudaSuccess);
    cudaMemcpyAsync(a.memory->data(), pinned, 64 * sizeof(float), cudaMemcpyHostToDevice, copies);
    cudaEventRecord(copied, copies);
    if (with_event) cudaStreamWaitEvent(product.stream, copied);
    ASSERT_EQ(product.Run(a, b, d, d), CUBLAS_STATUS_SUCCESS);
    Rows expected = ReferenceProduct(a, false, b, false);
    for (auto& row : expected) {
      for (double& value : row) value *= with_event ? 2 : 1;  // without: the copy was late
    }
    EXPECT_LT(RelativeError(d, expected), 1e-6) << with_event;
    Synchronize(copies);
    cudaEventDestroy(copied);
  }
  cudaFreeHost(pinned);
}

TEST(CublasLtDoubleTest, ACapturedProductAccumulatesAtEachReplay) {
  const Matrix a(CUDA_R_32F, 8, 8, 8, 1), b(CUDA_R_32F, 8, 8, 8, 2), d(CUDA_R_32F, 8, 8, 8, 3);
  Product product;
  product.beta = 1.0f;
  const auto algo = product.Heuristic(a, b, d, d)[0].algo;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Expect(cudaStreamBeginCapture(product.stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(cublasLtMatmul(product.handle, product.desc, &product.alpha, a.memory->data(), a.layout,
                           b.memory->data(), b.layout, &product.beta, d.memory->data(), d.layout,
                           d.memory->data(), d.layout, &algo, nullptr, 0, product.stream),
            CUBLAS_STATUS_SUCCESS);
  Expect(cudaStreamEndCapture(product.stream, &graph));
  Expect(cudaGraphInstantiate(&executable, graph, 0));
  for (int replay = 0; replay < 2; ++replay) Expect(cudaGraphLaunch(executable, product.stream));
  Synchronize(product.stream);
  Rows expected = ReferenceProduct(a, false, b, false);
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) expected[i][j] = 2 * expected[i][j] + d.Given(0, i, j);
  }
  EXPECT_LT(RelativeError(d, expected), 1e-6);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace tessera::cuda_emulation::testing
