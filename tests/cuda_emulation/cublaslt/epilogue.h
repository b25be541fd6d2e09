// What becomes of a product's fp32 sums on their way to D.
#pragma once

#include "tests/cuda_emulation/cublaslt/matmul_problem.h"

namespace tessera::cuda_emulation::cublaslt {

// d = epilogue(alpha * product + beta * c): `product` is packed m x n; c and d point to the batch's
// first elements and may be one. c is not read where beta is 0. Each number is rounded to the type
// of D once. GELU is the tanh approximation (Hendrycks and Gimpel 2016, arXiv:1606.08415), as the
// library computes it.
void StoreWithEpilogue(const MatmulProblem& problem, float alpha, float beta, const float* product,
                       const void* c, void* d);

}  // namespace tessera::cuda_emulation::cublaslt
