// cublasLtMatmulAlgoGetHeuristic and cublasLtMatmul.
#include <algorithm>
#include <memory>

#include "tests/cuda_emulation/cublaslt/algorithm.h"
#include "tests/cuda_emulation/cublaslt/diagnosis.h"
#include "tests/cuda_emulation/cublaslt/matmul_operation.h"
#include "tests/cuda_emulation/cublaslt/matmul_rules.h"
#include "tests/cuda_emulation/runtime/device_memory.h"

namespace {

using namespace tessera::cuda_emulation;            // NOLINT: the library's own names are global
using namespace tessera::cuda_emulation::cublaslt;  // NOLINT

constexpr uintptr_t kWorkspaceAlignmentBytes = 256;

bool IsAlive(cublasLtHandle_t handle) { return handle != nullptr && handle->magic == kHandleMagic; }

std::optional<Refusal> CheckWorkspace(const Algorithm& algorithm, void* workspace, size_t bytes) {
  const auto invalid = [](const std::string& what) {
    return Refusal{CUBLAS_STATUS_INVALID_VALUE, "workspace: " + what};
  };
  if (bytes < algorithm.workspace_bytes) {
    return invalid(std::to_string(bytes) + " bytes, the algorithm needs " +
                   std::to_string(algorithm.workspace_bytes));
  }
  if (workspace == nullptr) {
    return bytes == 0 ? std::nullopt : std::optional(invalid("null with a size"));
  }
  if (reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignmentBytes != 0) {
    return invalid("not aligned to 256 bytes");
  }
  if (!IsDeviceMemory(workspace, bytes)) {
    return invalid("not inside one device allocation: " + DescribeMemory(workspace, bytes));
  }
  return std::nullopt;
}

bool Meet(const void* x, size_t x_bytes, const void* y, size_t y_bytes) {
  const auto* const x_begin = static_cast<const char*>(x);
  const auto* const y_begin = static_cast<const char*>(y);
  return x_begin < y_begin + y_bytes && y_begin < x_begin + x_bytes;
}

// The workspace is written before the result: no matrix may lie in it.
bool HoldsMatrix(const MatmulCall& call) {
  const auto meets = [&](const void* pointer, const cublasLtMatrixLayoutOpaque_t& layout) {
    const auto bytes =
        static_cast<size_t>(SpanElements(layout) * SizeBytes(*FormatOf(layout.type)));
    return Meet(pointer, bytes, call.workspace, call.algorithm.workspace_bytes);
  };
  return meets(call.pointers.a, call.problem.a) || meets(call.pointers.b, call.problem.b) ||
         meets(call.pointers.c, call.problem.c) || meets(call.pointers.d, call.problem.d);
}

}  // namespace

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a_layout,
    cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout,
    cublasLtMatrixLayout_t d_layout, cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t* results, int* returned) {
  const auto refuse = [](cublasStatus_t status, const std::string& reason) {
    return RefuseCall(status, "cublasLtMatmulAlgoGetHeuristic", reason);
  };
  if (!IsAlive(handle)) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
  if (!desc || !a_layout || !b_layout || !c_layout || !d_layout || !preference || !results ||
      !returned || requested < 1) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "null argument, or no result requested");
  }
  *returned = 0;
  const MatmulProblem problem{*desc, *a_layout, *b_layout, *c_layout, *d_layout};
  if (const auto refusal = CheckProblem(problem)) return refuse(refusal->status, refusal->reason);
  const std::vector<Algorithm> found = FindAlgorithms(problem, *preference);
  if (found.empty()) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                  "the epilogue needs whole vectors of 16 bytes in all matrices");
  }
  for (const Algorithm& algorithm : found) {
    if (*returned == requested) break;
    results[(*returned)++] = {.algo = Encode(algorithm, problem),
                              .workspaceSize = algorithm.workspace_bytes,
                              .state = CUBLAS_STATUS_SUCCESS,
                              .wavesCount = 1.0f,
                              .reserved = {}};
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const auto refuse = [](cublasStatus_t status, const std::string& reason) {
    return RefuseCall(status, "cublasLtMatmul", reason);
  };
  if (!IsAlive(handle)) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
  if (!desc || !a_layout || !b_layout || !c_layout || !d_layout || !alpha || !beta) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "null argument");
  }
  if (KindOf(alpha) == MemoryKind::kDevice || KindOf(beta) == MemoryKind::kDevice) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "alpha and beta are read on the host");
  }
  if (algo == nullptr) return refuse(CUBLAS_STATUS_INVALID_VALUE, "no algorithm");
  const MatmulProblem problem{*desc, *a_layout, *b_layout, *c_layout, *d_layout};
  if (const auto refusal = CheckProblem(problem)) return refuse(refusal->status, refusal->reason);
  const char* reason = nullptr;
  const std::optional<Algorithm> algorithm = Decode(*algo, problem, &reason);
  if (!algorithm) return refuse(CUBLAS_STATUS_INVALID_VALUE, reason);
  if (const auto refusal = CheckWorkspace(*algorithm, workspace, workspace_bytes)) {
    return refuse(refusal->status, refusal->reason);
  }
  const MatmulPointers pointers{a, b, c, d};
  if (const auto refusal = CheckPointers(problem, pointers, algorithm->alignment_bytes)) {
    return refuse(refusal->status, refusal->reason);
  }
  const MatmulCall call{problem,
                        pointers,
                        *algorithm,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        workspace};
  if (HoldsMatrix(call)) return refuse(CUBLAS_STATUS_INVALID_VALUE, "a matrix in the workspace");
  if (Enqueue(stream, std::make_unique<MatmulOperation>(call)) != cudaSuccess) {
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "the stream takes no operation");
  }
  return CUBLAS_STATUS_SUCCESS;
}
