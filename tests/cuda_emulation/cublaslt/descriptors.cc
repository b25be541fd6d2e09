// Handles, descriptors, layouts and preferences: creation, attributes, destruction.
#include "tests/cuda_emulation/cublaslt/descriptors.h"

#include <cstring>

#include "tests/cuda_emulation/cublaslt/diagnosis.h"

namespace {

using tessera::cuda_emulation::cublaslt::kHandleMagic;
using tessera::cuda_emulation::cublaslt::RefuseCall;

template <typename Opaque>
cublasStatus_t Destroy(Opaque* object) {
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

// Copies an attribute whose size must be that of `target`, as the library checks it.
template <typename Target>
cublasStatus_t SetValue(const char* function, Target& target, const void* value,
                        size_t value_bytes) {
  if (value == nullptr) return RefuseCall(CUBLAS_STATUS_INVALID_VALUE, function, "null value");
  if (value_bytes != sizeof(Target)) {
    return RefuseCall(CUBLAS_STATUS_INVALID_VALUE, function,
                      "value of " + std::to_string(value_bytes) + " bytes, the attribute has " +
                          std::to_string(sizeof(Target)));
  }
  std::memcpy(&target, value, value_bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t RefuseNull(const char* function) {
  return RefuseCall(CUBLAS_STATUS_INVALID_VALUE, function, "null descriptor");
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return RefuseNull("cublasLtCreate");
  *handle = new cublasLtContext{kHandleMagic};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle == nullptr || handle->magic != kHandleMagic) {
    return RefuseCall(CUBLAS_STATUS_NOT_INITIALIZED, "cublasLtDestroy", "no handle");
  }
  handle->magic = 0;
  return Destroy(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  if (desc == nullptr) return RefuseNull("cublasLtMatmulDescCreate");
  *desc = new cublasLtMatmulDescOpaque_t{compute, scale_type};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return Destroy(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t value_bytes) {
  const char* const function = "cublasLtMatmulDescSetAttribute";
  if (desc == nullptr) return RefuseNull(function);
  const auto set = [&](auto& target) { return SetValue(function, target, value, value_bytes); };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(desc->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(desc->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(desc->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(desc->bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(desc->aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(desc->aux_ld);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return set(desc->aux_type);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(desc->bias_type);
  }
  return RefuseCall(CUBLAS_STATUS_INVALID_VALUE, function, "unknown attribute");
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  if (layout == nullptr) return RefuseNull("cublasLtMatrixLayoutCreate");
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return Destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t value_bytes) {
  const char* const function = "cublasLtMatrixLayoutSetAttribute";
  if (layout == nullptr) return RefuseNull(function);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return SetValue(function, layout->batch_count, value, value_bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return SetValue(function, layout->batch_stride, value, value_bytes);
  }
  return RefuseCall(CUBLAS_STATUS_INVALID_VALUE, function, "unknown attribute");
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (preference == nullptr) return RefuseNull("cublasLtMatmulPreferenceCreate");
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return Destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t value_bytes) {
  const char* const function = "cublasLtMatmulPreferenceSetAttribute";
  if (preference == nullptr) return RefuseNull(function);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return SetValue(function, preference->max_workspace_bytes, value, value_bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return SetValue(function,
                      preference->min_alignment_bytes[static_cast<int>(attribute) -
                                                      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                      value, value_bytes);
  }
  return RefuseCall(CUBLAS_STATUS_INVALID_VALUE, function, "unknown attribute");
}
