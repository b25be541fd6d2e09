// Borrowed device memory with its element type: what the kernel arguments hold. Shapes stand beside
// each member in op_args.h; storage is row-major and contiguous unless a stride says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cost_model/base/check.h"
#include "cost_model/base/dtype.h"

namespace tessera::kernels {

template <typename T>
constexpr base::DType DTypeOf();
template <>
constexpr base::DType DTypeOf<float>() {
  return base::DType::kFloat32;
}
template <>
constexpr base::DType DTypeOf<int32_t>() {
  return base::DType::kInt32;
}

struct ConstArray {
  const void* data = nullptr;
  base::DType dtype = base::DType::kFloat32;

  ConstArray() = default;
  ConstArray(std::nullptr_t) {}                                                    // NOLINT
  ConstArray(const float* values) : data(values) {}                                // NOLINT
  ConstArray(const int32_t* values) : data(values), dtype(base::DType::kInt32) {}  // NOLINT
  ConstArray(const void* values, base::DType type) : data(values), dtype(type) {}

  // The array from element `offset` on; absent stays absent.
  ConstArray At(int64_t offset) const {
    if (data == nullptr) return *this;
    return {static_cast<const std::byte*>(data) + offset * base::SizeBytes(dtype), dtype};
  }
  template <typename T>
  const T* As() const {
    TESSERA_CHECK(data == nullptr || dtype == DTypeOf<T>(), "array of ", base::ToString(dtype));
    return static_cast<const T*>(data);
  }
  explicit operator bool() const { return data != nullptr; }
};

struct Array {
  void* data = nullptr;
  base::DType dtype = base::DType::kFloat32;

  Array() = default;
  Array(std::nullptr_t) {}                                              // NOLINT
  Array(float* values) : data(values) {}                                // NOLINT
  Array(int32_t* values) : data(values), dtype(base::DType::kInt32) {}  // NOLINT
  Array(void* values, base::DType type) : data(values), dtype(type) {}

  // The array from element `offset` on; absent stays absent.
  Array At(int64_t offset) const {
    if (data == nullptr) return *this;
    return {static_cast<std::byte*>(data) + offset * base::SizeBytes(dtype), dtype};
  }
  template <typename T>
  T* As() const {
    TESSERA_CHECK(data == nullptr || dtype == DTypeOf<T>(), "array of ", base::ToString(dtype));
    return static_cast<T*>(data);
  }
  operator ConstArray() const { return {data, dtype}; }  // NOLINT
  explicit operator bool() const { return data != nullptr; }
};

}  // namespace tessera::kernels
