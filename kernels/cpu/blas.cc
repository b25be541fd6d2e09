#include "kernels/cpu/blas.h"

#include <cblas.h>

// Present in OpenBLAS alone; weak, so that another BLAS links too.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int num_threads);

namespace tessera::kernels {

void Gemm(const GemmArgs& args) {
  const auto transpose = [](Transpose value) {
    return value == Transpose::kYes ? CblasTrans : CblasNoTrans;
  };
  cblas_sgemm(CblasRowMajor, transpose(args.transpose_a), transpose(args.transpose_b),
              static_cast<int>(args.m), static_cast<int>(args.n), static_cast<int>(args.k),
              args.alpha, args.a, static_cast<int>(args.lda), args.b, static_cast<int>(args.ldb),
              args.beta, args.c, static_cast<int>(args.ldc));
}

void UseOneBlasThread() {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
}

}  // namespace tessera::kernels
