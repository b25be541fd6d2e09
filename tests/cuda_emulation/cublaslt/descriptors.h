// What stands behind the handles of the cuBLASLt double.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>

#include "tests/cuda_emulation/number_formats.h"

struct cublasLtContext {
  uint64_t magic;  // kHandleMagic while alive
};

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute_type;
  cudaDataType_t scale_type;
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t bias_type = -1;  // -1: the type of D
  int32_t aux_type = -1;   // -1: the type of D
  int64_t aux_ld = 0;
  void* bias = nullptr;
  void* aux = nullptr;
};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  uint64_t rows;
  uint64_t cols;
  int64_t ld;
  int32_t batch_count = 1;
  int64_t batch_stride = 0;
};

struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t max_workspace_bytes = 0;
  uint32_t min_alignment_bytes[4] = {256, 256, 256, 256};  // A, B, C, D
};

namespace tessera::cuda_emulation::cublaslt {

inline constexpr uint64_t kHandleMagic = 0x7465737365726121;

// Empty for a type that no matmul of the double takes.
inline std::optional<NumberFormat> FormatOf(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return NumberFormat::kFloat32;
    case CUDA_R_16BF:
      return NumberFormat::kBFloat16;
    case CUDA_R_16F:
      return NumberFormat::kFloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace tessera::cuda_emulation::cublaslt
