// What becomes of a product's fp32 sums on their way to D.
#pragma once

#include "tests/cuda_emulation/cublaslt/matmul_problem.h"
#include "tests/cuda_emulation/cublaslt/matmul_rules.h"

namespace tessera::cuda_emulation::cublaslt {

// d = epilogue(alpha * product + beta * c): `product` is packed m x n; c and d point to the batch's
// first elements and may be one. c is not read where beta is 0. Each number is rounded to the type
// of D once. GELU is the tanh approximation (Hendrycks and Gimpel 2016, arXiv:1606.08415), as the
// library computes it.
void StoreWithEpilogue(const MatmulProblem& problem, float alpha, float beta, const float* product,
                       const void* c, void* d);

// BGRADA: the sum of op(A) over k, m numbers; BGRADB: of op(B), n numbers. Neither alpha nor beta
// applies.
void StoreBiasGradient(const MatmulProblem& problem, const MatmulPointers& pointers);

}  // namespace tessera::cuda_emulation::cublaslt
