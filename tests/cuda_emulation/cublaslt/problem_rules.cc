// The rules about descriptors.
#include <climits>

#include "tests/cuda_emulation/cublaslt/matmul_rules.h"

namespace tessera::cuda_emulation::cublaslt {
namespace {

using Layout = cublasLtMatrixLayoutOpaque_t;

std::string Shape(int64_t rows, int64_t cols) {
  return std::to_string(rows) + " x " + std::to_string(cols);
}

std::optional<Refusal> CheckLayout(const char* name, const Layout& layout, int64_t rows,
                                   int64_t cols) {
  const auto invalid = [&](const std::string& what) {
    return Refusal{CUBLAS_STATUS_INVALID_VALUE, std::string(name) + ": " + what};
  };
  const auto layout_rows = static_cast<int64_t>(layout.rows);
  const auto layout_cols = static_cast<int64_t>(layout.cols);
  if (layout_rows < 1 || layout_cols < 1)
    return invalid("empty: " + Shape(layout_rows, layout_cols));
  if (layout_rows > INT_MAX || layout_cols > INT_MAX) return invalid("more than 2^31 - 1 rows");
  if (layout_rows != rows || layout_cols != cols) {
    return invalid("stored as " + Shape(layout_rows, layout_cols) + ", the product needs " +
                   Shape(rows, cols));
  }
  if (layout.ld < layout_rows) {
    return invalid("leading dimension " + std::to_string(layout.ld) + " below its " +
                   std::to_string(layout_rows) + " rows (column-major)");
  }
  if (layout.batch_count < 1 || layout.batch_stride < 0) return invalid("batch count or stride");
  return std::nullopt;
}

std::optional<Refusal> CheckShapes(const MatmulProblem& problem) {
  const int64_t m = problem.m(), n = problem.n(), k = problem.k();
  const bool a_as_is = problem.desc.transpose_a == CUBLAS_OP_N;
  const bool b_as_is = problem.desc.transpose_b == CUBLAS_OP_N;
  if (auto refusal = CheckLayout("A", problem.a, a_as_is ? m : k, a_as_is ? k : m)) return refusal;
  if (auto refusal = CheckLayout("B", problem.b, b_as_is ? k : n, b_as_is ? n : k)) return refusal;
  if (auto refusal = CheckLayout("C", problem.c, m, n)) return refusal;
  if (auto refusal = CheckLayout("D", problem.d, m, n)) return refusal;
  const int batch_count = problem.d.batch_count;
  for (const Layout* layout : {&problem.a, &problem.b, &problem.c}) {
    if (layout->batch_count != batch_count) {
      return Refusal{CUBLAS_STATUS_INVALID_VALUE, "the matrices differ in their batch counts"};
    }
  }
  const int64_t stride = problem.d.batch_stride;
  const bool side_by_side = stride >= m && (batch_count - 1) * stride + m <= problem.d.ld;
  if (batch_count > 1 && !side_by_side && stride < (n - 1) * problem.d.ld + m) {
    return Refusal{CUBLAS_STATUS_INVALID_VALUE, "D: batches overlap"};
  }
  return std::nullopt;
}

std::optional<Refusal> CheckTypes(const MatmulProblem& problem) {
  const auto unsupported = [](const char* what) {
    return Refusal{CUBLAS_STATUS_NOT_SUPPORTED, what};
  };
  for (const Layout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    if (!FormatOf(layout->type)) return unsupported("types other than 32F, 16BF and 16F");
  }
  if (problem.a.type != problem.b.type) return unsupported("A and B differ in their types");
  if (problem.c.type != problem.d.type) return unsupported("C and D differ in their types");
  if (problem.d.type != CUDA_R_32F && problem.d.type != problem.a.type) {
    return unsupported("D is neither fp32 nor of the type of A and B");
  }
  if (problem.desc.scale_type != CUDA_R_32F) return unsupported("scale type other than 32F");
  const cublasComputeType_t compute = problem.desc.compute_type;
  if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) {
    return unsupported("compute type");
  }
  if (compute == CUBLAS_COMPUTE_32F_FAST_TF32 && problem.a.type != CUDA_R_32F) {
    return unsupported("TF32 with operands of 16 bits");
  }
  return std::nullopt;
}

std::optional<Refusal> CheckBias(const MatmulProblem& problem) {
  const auto& desc = problem.desc;
  if (desc.bias == nullptr) return Refusal{CUBLAS_STATUS_INVALID_VALUE, "the bias pointer is null"};
  if (reinterpret_cast<uintptr_t>(desc.bias) % kVectorBytes != 0) {
    return Refusal{CUBLAS_STATUS_NOT_SUPPORTED, "the bias pointer is not aligned to 16 bytes"};
  }
  if (desc.bias_type != -1 && desc.bias_type != problem.d.type) {
    return Refusal{CUBLAS_STATUS_NOT_SUPPORTED, "the bias is not of the type of D"};
  }
  return std::nullopt;
}

std::optional<Refusal> CheckAux(const MatmulProblem& problem) {
  const auto& desc = problem.desc;
  if (desc.aux == nullptr) return Refusal{CUBLAS_STATUS_INVALID_VALUE, "the aux pointer is null"};
  if (reinterpret_cast<uintptr_t>(desc.aux) % kVectorBytes != 0) {
    return Refusal{CUBLAS_STATUS_NOT_SUPPORTED, "the aux pointer is not aligned to 16 bytes"};
  }
  if (desc.aux_type != -1 && desc.aux_type != problem.d.type) {
    return Refusal{CUBLAS_STATUS_INVALID_VALUE, "the aux is not of the type of D"};
  }
  if (desc.aux_ld % 8 != 0 || desc.aux_ld < problem.m()) {
    return Refusal{CUBLAS_STATUS_INVALID_VALUE,
                   "leading dimension of aux " + std::to_string(desc.aux_ld) +
                       ": must be a multiple of 8 and at least m = " + std::to_string(problem.m())};
  }
  if (problem.m() * SizeBytes(problem.FormatOfD()) % kVectorBytes != 0) {
    return Refusal{CUBLAS_STATUS_NOT_SUPPORTED, "m of an epilogue with aux is not whole vectors"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> CheckProblem(const MatmulProblem& problem) {
  const auto is_operation = [](int32_t value) {
    return value == CUBLAS_OP_N || value == CUBLAS_OP_T;
  };
  const auto& desc = problem.desc;
  if (!is_operation(desc.transpose_a) || !is_operation(desc.transpose_b)) {
    return Refusal{CUBLAS_STATUS_INVALID_VALUE, "transpose is neither N nor T"};
  }
  if (auto refusal = CheckTypes(problem)) return refusal;
  if (auto refusal = CheckShapes(problem)) return refusal;
  if (desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return std::nullopt;
  if (!AddsBias(desc.epilogue) && !UsesAux(desc.epilogue)) {
    return Refusal{CUBLAS_STATUS_NOT_SUPPORTED, "epilogue " + std::to_string(desc.epilogue)};
  }
  if (problem.d.batch_count > 1) {
    return Refusal{CUBLAS_STATUS_NOT_SUPPORTED, "an epilogue on a batch of matrices"};
  }
  if (AddsBias(desc.epilogue)) {
    if (auto refusal = CheckBias(problem)) return refusal;
  }
  return UsesAux(desc.epilogue) ? CheckAux(problem) : std::nullopt;
}

}  // namespace tessera::cuda_emulation::cublaslt
