// Matrix products by cuBLASLt. The library thinks in columns, we in rows: it is told to compute
// c^T = op(b)^T op(a)^T, which in its order is c as we store it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <vector>

#include "kernels/cuda/cublaslt_handles.h"
#include "kernels/op_args.h"

namespace tessera::kernels::cuda {

struct CublasWorkspace {
  void* memory = nullptr;  // 256-byte aligned
  int64_t num_bytes = 0;
};

// Operands of one type: fp32, bf16 or fp16; c of the same type or, of 16-bit operands, in fp32.
// Sums are formed in fp32. Descriptors and algorithms are kept for the shapes that come by; all are
// let go when they become too many.
class CublasLtMatMul {
 public:
  // `allow_tf32`: products of fp32 may round their operands to 10 bits of mantissa.
  explicit CublasLtMatMul(bool allow_tf32) : allow_tf32_(allow_tf32), handle_(MakeCublasHandle()) {}

  // For all products from now on.
  void set_workspace(const CublasWorkspace& workspace);

  // Enqueues the product, and its epilogue where the library has one for these types, sizes and
  // alignments: false where the epilogue is left to the caller. Throws base::SystemError naming
  // call, reason and shape when no algorithm takes the product.
  [[nodiscard]] bool Run(const MatMulArgs& args, cudaStream_t stream);

 private:
  // What an algorithm is chosen for.
  struct Shape {
    int64_t m = 0, n = 0, k = 0;
    int64_t lda = 0, ldb = 0, ldc = 0;
    base::MatMulLayout layout = base::MatMulLayout::kNT;
    base::DType operand_type = base::DType::kFloat32, result_type = base::DType::kFloat32;
    base::Epilogue epilogue = base::Epilogue::kNone;  // to be fused
    bool has_bias = false;
    uint32_t a_alignment_bytes = 0, b_alignment_bytes = 0, c_alignment_bytes = 0;
    auto operator<=>(const Shape&) const = default;
  };
  struct Product {
    MatMulDescription description;
    MatrixLayout a, b, c;
    bool has_bias = false, has_aux = false;
    std::vector<cublasLtMatmulAlgo_t> algorithms;   // the fastest first
    size_t chosen = 0;                              // those before it have failed
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;  // of the last that failed, or of the choice
  };

  static Shape ShapeOf(const MatMulArgs& args, bool with_epilogue);
  static std::string ToString(const Shape& shape);
  Product& ProductOf(const Shape& shape, const MatMulArgs& args);
  void ChooseAlgorithms(const Shape& shape, Product& product) const;
  // Whether an algorithm took it.
  bool TryRun(const Shape& shape, Product& product, const MatMulArgs& args,
              cudaStream_t stream) const;

  const bool allow_tf32_;
  CublasHandle handle_;
  CublasWorkspace workspace_;
  std::map<Shape, Product> products_;
};

}  // namespace tessera::kernels::cuda
