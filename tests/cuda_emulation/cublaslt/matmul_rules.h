// Which products the cuBLASLt double takes. Each rule is the library's as documented or, marked
// (+), stricter: something that the library may let pass and that users were hurt by.
//
//  Shapes   op(A) is m x k, op(B) k x n, C and D m x n; none is empty; all have one batch count.
//           ld >= rows ("large enough so that matrix memory locations are not overlapping":
//           cublasLt.h, CUBLASLT_MATRIX_LAYOUT_LD). Batches of D do not overlap (+).
//  Types    A and B alike, C and D alike; fp32 from any of them, 16 bits from the same 16 bits;
//           TF32 for fp32 only; alpha and beta fp32 (cuBLAS documentation, table of
//           cublasLtMatmul).
//  Bias     of D's type (the same table; header at CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE), aligned
//           to 16 bytes (+: the alignment preferences leave it out, kernels assume 16 bytes and
//           fault: pytorch/pytorch pull request 194497).
//  Aux      of D's type, ld divisible by 8 and >= m (header, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
//           set before the heuristic is asked, which depends on the pointer's alignment (header,
//           CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER); 16 bytes (+).
//  Aligned  A pointer has the alignment that the preference promised (header,
//           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_*_BYTES; breaking the promise ended in
//           CUBLAS_STATUS_NOT_SUPPORTED: pytorch/pytorch pull requests 97205, 98975). Fused
//           epilogues other than the bias take vectors of 16 bytes: pointers, leading dimensions
//           and, for an aux, m in bytes (+).
//  Batches  with the default epilogue only (+: strides of bias and aux are not part of the double).
//  Pointers device memory, each matrix inside one allocation; D overlaps none of the others, but C,
//           in place, with the very same layout.
//  Algo     from the heuristic, for the same descriptors (+: null lets the library choose anew on
//           each call, against the caching of algorithms). Its workspace is 256-byte aligned
//           (cuBLAS documentation of cublasLtMatmul) and as large as the heuristic said.
#pragma once

#include <optional>
#include <string>

#include "tests/cuda_emulation/cublaslt/matmul_problem.h"

namespace tessera::cuda_emulation::cublaslt {

struct Refusal {
  cublasStatus_t status;
  std::string reason;
};

inline constexpr int64_t kVectorBytes = 16;

// What descriptors alone decide. Empty: the product is fine for some algorithm.
std::optional<Refusal> CheckProblem(const MatmulProblem& problem);

// The data of one call.
struct MatmulPointers {
  const void* a;
  const void* b;
  const void* c;
  void* d;
};

// What the pointers decide: memory, alignment (`alignment_bytes`: promised for A, B, C, D),
// overlap.
std::optional<Refusal> CheckPointers(const MatmulProblem& problem, const MatmulPointers& pointers,
                                     const uint32_t (&alignment_bytes)[4]);

}  // namespace tessera::cuda_emulation::cublaslt
