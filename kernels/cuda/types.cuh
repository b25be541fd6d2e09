// The floating-point types of the kernels, and the one switch from a dtype to a type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cost_model/base/check.h"
#include "cost_model/base/dtype.h"
#include "cost_model/base/token_positions.h"
#include "kernels/array.h"

namespace tessera::kernels {

template <>
constexpr base::DType DTypeOf<__nv_bfloat16>() {
  return base::DType::kBFloat16;
}
template <>
constexpr base::DType DTypeOf<__half>() {
  return base::DType::kFloat16;
}

namespace cuda {

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float ToFloat(__half x) { return __half2float(x); }

// Rounds to nearest even.
template <typename T>
__device__ __forceinline__ T FromFloat(float x);
template <>
__device__ __forceinline__ float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __half FromFloat<__half>(float x) {
  return __float2half_rn(x);
}

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls body(TypeTag<T>()) with the type of `dtype`, one of fp32, bf16 and fp16.
template <typename Body>
void WithFloatType(base::DType dtype, const Body& body) {
  switch (dtype) {
    case base::DType::kFloat32:
      return body(TypeTag<float>());
    case base::DType::kBFloat16:
      return body(TypeTag<__nv_bfloat16>());
    case base::DType::kFloat16:
      return body(TypeTag<__half>());
    default:
      TESSERA_CHECK(false, "no kernels for ", base::ToString(dtype));
  }
}

// positions.Of(token), where the host's functions cannot be called.
__device__ __forceinline__ int64_t PositionOf(const base::TokenPositions& positions,
                                              int64_t token) {
  return token + (token < positions.num_early ? positions.early_shift : positions.late_shift);
}

}  // namespace cuda
}  // namespace tessera::kernels
