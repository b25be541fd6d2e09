// Matrix products of one thread. The backend's own threads share out the work; the library's
// threads would only compete with them.
#pragma once

#include <cstdint>

namespace tessera::kernels {

enum class Transpose : uint8_t { kNo, kYes };

// c[m, n] = alpha * op(a) op(b) + beta * c, row-major; lda, ldb, ldc are row strides as stored.
struct GemmArgs {
  Transpose transpose_a = Transpose::kNo;  // kNo: a is [m, k], kYes: [k, m]
  Transpose transpose_b = Transpose::kNo;  // kNo: b is [k, n], kYes: [n, k]
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  float beta = 0;
  float* c = nullptr;
  int64_t ldc = 0;
};
void Gemm(const GemmArgs& args);

// Keeps the library from threading the calls of this thread. To be called once on every thread
// that calls Gemm: OpenBLAS built on OpenMP keeps the setting per thread.
void UseOneBlasThread();

}  // namespace tessera::kernels
