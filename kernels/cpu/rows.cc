#include "kernels/cpu/rows.h"

#include <algorithm>

#include "cost_model/base/float16.h"

namespace tessera::kernels {
namespace {

using base::DType;

void LoadFloats(ConstArray x, float* destination, int64_t n) {
  const auto* const bits = static_cast<const uint16_t*>(x.data);
  switch (x.dtype) {
    case DType::kFloat32:
      std::copy_n(x.As<float>(), n, destination);
      return;
    case DType::kBFloat16:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) destination[i] = base::BFloat16ToFloat(bits[i]);
      return;
    case DType::kFloat16:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) destination[i] = base::Float16ToFloat(bits[i]);
      return;
    default:
      base::FailCheck(__FILE__, __LINE__, "floating-point array", base::ToString(x.dtype));
  }
}

}  // namespace

void StoreFloats(const float* x, Array destination, int64_t n) {
  auto* const bits = static_cast<uint16_t*>(destination.data);
  switch (destination.dtype) {
    case DType::kFloat32:
      std::copy_n(x, n, destination.As<float>());
      return;
    case DType::kBFloat16:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) bits[i] = base::FloatToBFloat16(x[i]);
      return;
    case DType::kFloat16:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) bits[i] = base::FloatToFloat16(x[i]);
      return;
    default:
      base::FailCheck(__FILE__, __LINE__, "floating-point array",
                      base::ToString(destination.dtype));
  }
}

Rows RowReader::Convert(ConstArray x, int64_t stride, int64_t num_rows, int64_t num_cols) {
  float* const own = memory_.Get(num_rows * num_cols);
  for (int64_t row = 0; row < num_rows; ++row) {
    LoadFloats(x.At(row * stride), own + row * num_cols, num_cols);
  }
  return {own, num_cols};
}

MutableRows RowWriter::OpenOwn(int64_t stride, int64_t num_rows, int64_t num_cols) {
  own_ = memory_.Get(num_rows * num_cols);
  stride_ = stride;
  num_rows_ = num_rows;
  num_cols_ = num_cols;
  return {own_, num_cols};
}

void RowWriter::LoadOwn() {
  for (int64_t row = 0; row < num_rows_; ++row) {
    LoadFloats(target_.At(row * stride_), own_ + row * num_cols_, num_cols_);
  }
}

void RowWriter::StoreOwn() {
  for (int64_t row = 0; row < num_rows_; ++row) {
    StoreFloats(own_ + row * num_cols_, target_.At(row * stride_), num_cols_);
  }
}

}  // namespace tessera::kernels
