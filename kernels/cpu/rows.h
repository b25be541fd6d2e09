// Arrays of the three floating-point types as the fp32 that everything here is computed in: fp32
// arrays in place, 16-bit ones by way of memory that belongs to the reader or writer. A reader or
// writer serves one thread.
#pragma once

#include <cstdint>

#include "kernels/array.h"
#include "kernels/cpu/scratch.h"

namespace tessera::kernels {

// Rows of fp32, `stride` elements from one to the next.
struct Rows {
  const float* data = nullptr;
  int64_t stride = 0;
};
struct MutableRows {
  float* data = nullptr;
  int64_t stride = 0;
};

// destination[n] = x[n], rounded to nearest even where its type is 16-bit; infinities and NaN stay.
void StoreFloats(const float* x, Array destination, int64_t n);

class RowReader {
 public:
  // x[num_rows, num_cols], `stride` elements from row to row; no data where x is absent. What an
  // earlier call returned is lost, unless it was in place.
  Rows Read(ConstArray x, int64_t stride, int64_t num_rows, int64_t num_cols) {
    if (x.dtype != base::DType::kFloat32 && x) return Convert(x, stride, num_rows, num_cols);
    return {static_cast<const float*>(x.data), stride};
  }
  const float* Read(ConstArray x, int64_t n) { return Read(x, n, 1, n).data; }

 private:
  Rows Convert(ConstArray x, int64_t stride, int64_t num_rows, int64_t num_cols);

  Scratch memory_;
};

class RowWriter {
 public:
  // Where to put the values of x[num_rows, num_cols], all of them; Store() brings them to x.
  MutableRows Open(Array x, int64_t stride, int64_t num_rows, int64_t num_cols) {
    target_ = x;
    if (x.dtype != base::DType::kFloat32) return OpenOwn(stride, num_rows, num_cols);
    return {static_cast<float*>(x.data), stride};
  }
  // The same with the values that x has, to be changed.
  MutableRows Load(Array x, int64_t stride, int64_t num_rows, int64_t num_cols) {
    const MutableRows rows = Open(x, stride, num_rows, num_cols);
    if (x.dtype != base::DType::kFloat32) LoadOwn();
    return rows;
  }
  float* Open(Array x, int64_t n) { return Open(x, n, 1, n).data; }
  float* Load(Array x, int64_t n) { return Load(x, n, 1, n).data; }

  void Store() {
    if (target_.dtype != base::DType::kFloat32) StoreOwn();
  }

 private:
  MutableRows OpenOwn(int64_t stride, int64_t num_rows, int64_t num_cols);
  void LoadOwn();
  void StoreOwn();

  Scratch memory_;
  Array target_;
  float* own_ = nullptr;
  int64_t stride_ = 0, num_rows_ = 0, num_cols_ = 0;
};

// Elements that a pass over an array takes at a time: what it converts stays in the first cache.
constexpr int64_t kChunk = 2048;

// body(first, count) over the chunks of [begin, end).
template <typename Body>
void ForChunks(int64_t begin, int64_t end, const Body& body) {
  for (int64_t first = begin; first < end; first += kChunk) {
    body(first, first + kChunk < end ? kChunk : end - first);
  }
}

}  // namespace tessera::kernels
