#include "tests/cuda_emulation/cublaslt/matmul_operation.h"

#include <cstring>
#include <vector>

#include "kernels/cpu/blas.h"
#include "tests/cuda_emulation/cublaslt/epilogue.h"

namespace tessera::cuda_emulation::cublaslt {
namespace {

const void* At(const void* pointer, NumberFormat format, int64_t element) {
  return static_cast<const char*>(pointer) + element * SizeBytes(format);
}

// One matrix of a batch as fp32, column-major and packed unless it can be read where it is.
struct Operand {
  std::vector<float> storage;
  const float* data;
  int64_t ld;
};

Operand LoadOperand(const void* pointer, const cublasLtMatrixLayoutOpaque_t& layout, int64_t batch,
                    bool as_tf32) {
  const NumberFormat format = *FormatOf(layout.type);
  const void* const first = At(pointer, format, batch * layout.batch_stride);
  if (format == NumberFormat::kFloat32 && !as_tf32) {
    return {{}, static_cast<const float*>(first), layout.ld};
  }
  const auto rows = static_cast<int64_t>(layout.rows);
  const auto cols = static_cast<int64_t>(layout.cols);
  Operand operand{std::vector<float>(static_cast<size_t>(rows * cols)), nullptr, rows};
  for (int64_t col = 0; col < cols; ++col) {
    LoadNumbers(At(first, format, col * layout.ld), format, rows, &operand.storage[col * rows]);
  }
  if (as_tf32) {
    for (float& value : operand.storage) value = RoundToTf32(value);
  }
  operand.data = operand.storage.data();
  return operand;
}

// sum = op(A) * op(B) over [k_begin, k_end), packed m x n. A column-major product is the row-major
// product of the transposes in turned order.
void Multiply(const MatmulProblem& problem, const Operand& a, const Operand& b, int64_t k_begin,
              int64_t k_end, float* sum) {
  const bool transpose_a = problem.desc.transpose_a == CUBLAS_OP_T;
  const bool transpose_b = problem.desc.transpose_b == CUBLAS_OP_T;
  const auto flag = [](bool transpose) {
    return transpose ? kernels::Transpose::kYes : kernels::Transpose::kNo;
  };
  kernels::Gemm({.transpose_a = flag(transpose_b),
                 .transpose_b = flag(transpose_a),
                 .m = problem.n(),
                 .n = problem.m(),
                 .k = k_end - k_begin,
                 .alpha = 1.0f,
                 .a = b.data + k_begin * (transpose_b ? b.ld : 1),
                 .lda = b.ld,
                 .b = a.data + k_begin * (transpose_a ? 1 : a.ld),
                 .ldb = a.ld,
                 .beta = 0.0f,
                 .c = sum,
                 .ldc = problem.m()});
}

// The product by pieces of k, whose sums lie in the workspace, poisoned before.
void MultiplySplit(const MatmulCall& call, const Operand& a, const Operand& b,
                   std::vector<float>& product) {
  const int64_t k = call.problem.k(), splits = call.algorithm.num_splits;
  auto* const partial = static_cast<float*>(call.workspace);
  std::memset(call.workspace, 0xFF, call.algorithm.workspace_bytes);
  const auto size = static_cast<int64_t>(product.size());
  for (int64_t split = 0; split < splits; ++split) {
    Multiply(call.problem, a, b, k * split / splits, k * (split + 1) / splits,
             partial + split * size);
  }
  for (int64_t split = 0; split < splits; ++split) {
    for (int64_t i = 0; i < size; ++i) {
      product[i] = split == 0 ? partial[i] : product[i] + partial[split * size + i];
    }
  }
  std::memset(call.workspace, 0xFF, call.algorithm.workspace_bytes);
}

}  // namespace

bool MatmulOperation::TryRun() {
  kernels::UseOneBlasThread();
  const MatmulProblem& problem = call_.problem;
  const bool as_tf32 = problem.desc.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  const NumberFormat format = problem.FormatOfD();
  std::vector<float> product(static_cast<size_t>(problem.m() * problem.n()));
  for (int64_t batch = 0; batch < problem.d.batch_count; ++batch) {
    const Operand a = LoadOperand(call_.pointers.a, problem.a, batch, as_tf32);
    const Operand b = LoadOperand(call_.pointers.b, problem.b, batch, as_tf32);
    if (call_.algorithm.kind == AlgorithmKind::kSplitK) {
      MultiplySplit(call_, a, b, product);
    } else {
      Multiply(problem, a, b, 0, problem.k(), product.data());
    }
    const void* const c = At(call_.pointers.c, format, batch * problem.c.batch_stride);
    const void* const d = At(call_.pointers.d, format, batch * problem.d.batch_stride);
    StoreWithEpilogue(problem, call_.alpha, call_.beta, product.data(), c, const_cast<void*>(d));
  }
  return true;
}

std::string MatmulOperation::Describe() const {
  const MatmulProblem& problem = call_.problem;
  return "cublasLtMatmul of m = " + std::to_string(problem.m()) +
         ", n = " + std::to_string(problem.n()) + ", k = " + std::to_string(problem.k());
}

std::unique_ptr<StreamOperation> MatmulOperation::Clone() const {
  return std::make_unique<MatmulOperation>(call_);
}

}  // namespace tessera::cuda_emulation::cublaslt
