#include "kernels/cuda/cublaslt_handles.h"

#include "cost_model/base/error.h"

namespace tessera::kernels::cuda {

void CheckCublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw base::SystemError(base::Concat(call, ": ", cublasLtGetStatusName(status), ", ",
                                       cublasLtGetStatusString(status)));
}

CublasHandle MakeCublasHandle() {
  cublasLtHandle_t handle = nullptr;
  CheckCublas(cublasLtCreate(&handle), "cublasLtCreate");
  return CublasHandle(handle);
}

MatMulDescription MakeMatMulDescription(cublasComputeType_t compute) {
  cublasLtMatmulDesc_t description = nullptr;
  CheckCublas(cublasLtMatmulDescCreate(&description, compute, CUDA_R_32F),
              "cublasLtMatmulDescCreate");
  return MatMulDescription(description);
}

MatrixLayout MakeMatrixLayout(cudaDataType_t type, int64_t rows, int64_t cols, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  CheckCublas(cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows),
                                         static_cast<uint64_t>(cols), stride),
              "cublasLtMatrixLayoutCreate");
  return MatrixLayout(layout);
}

MatMulPreference MakeMatMulPreference() {
  cublasLtMatmulPreference_t preference = nullptr;
  CheckCublas(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  return MatMulPreference(preference);
}

}  // namespace tessera::kernels::cuda
