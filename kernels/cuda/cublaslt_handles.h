// Handles of cuBLASLt that release themselves, and its failures as exceptions.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tessera::kernels::cuda {

// Throws base::SystemError naming the call and what cuBLASLt says of it.
void CheckCublas(cublasStatus_t status, const char* call);

struct CublasRelease {
  void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t desc) const { cublasLtMatmulDescDestroy(desc); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublasLtMatmulPreferenceDestroy(preference);
  }
};
template <typename Handle>
using CublasOwner = std::unique_ptr<std::remove_pointer_t<Handle>, CublasRelease>;

using CublasHandle = CublasOwner<cublasLtHandle_t>;
using MatMulDescription = CublasOwner<cublasLtMatmulDesc_t>;
using MatrixLayout = CublasOwner<cublasLtMatrixLayout_t>;
using MatMulPreference = CublasOwner<cublasLtMatmulPreference_t>;

CublasHandle MakeCublasHandle();
MatMulDescription MakeMatMulDescription(cublasComputeType_t compute);  // alpha and beta in fp32
MatrixLayout MakeMatrixLayout(cudaDataType_t type, int64_t rows, int64_t cols, int64_t stride);
MatMulPreference MakeMatMulPreference();

template <typename Value>
void SetAttribute(const MatMulDescription& description, cublasLtMatmulDescAttributes_t attribute,
                  const Value& value) {
  CheckCublas(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)),
              "cublasLtMatmulDescSetAttribute");
}

template <typename Value>
void SetAttribute(const MatMulPreference& preference,
                  cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  CheckCublas(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
      "cublasLtMatmulPreferenceSetAttribute");
}

}  // namespace tessera::kernels::cuda
