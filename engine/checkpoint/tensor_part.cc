#include "engine/checkpoint/tensor_part.h"

#include <algorithm>
#include <cstring>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"

namespace tessera::engine {
namespace {

// The tensor as [outer, shape[dim], inner].
struct Factors {
  int64_t outer = 1;
  int64_t dim_size = 1;
  int64_t inner = 1;
};

Factors FactorsOf(const std::vector<int64_t>& shape, int dim) {
  TESSERA_CHECK(dim >= 0 && dim < static_cast<int>(shape.size()), "dim ", dim, " of ",
                shape.size());
  Factors factors;
  for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
    (i < dim ? factors.outer : i == dim ? factors.dim_size : factors.inner) *= shape[i];
  }
  return factors;
}

bool IsWhole(const std::vector<int64_t>& shape, const TensorPart& part) {
  return part.begin == 0 && part.size == shape[part.dim] && part.stored_size == part.size;
}

// A whole tensor is the same elements in the same order whichever dimension it is a slice of.
TensorPart AlongDim(const std::vector<int64_t>& shape, TensorPart part, int dim) {
  part.dim = dim;
  part.size = part.stored_size = shape[dim];
  return part;
}

// Puts both parts on one dimension: 0, of fewest rows, where both are whole.
void AlignDims(const std::vector<int64_t>& shape, TensorPart& a, TensorPart& b) {
  const bool a_whole = IsWhole(shape, a);
  const bool b_whole = IsWhole(shape, b);
  if (a_whole && b_whole) {
    a = AlongDim(shape, a, 0);
    b = AlongDim(shape, b, 0);
  } else if (a_whole) {
    a = AlongDim(shape, a, b.dim);
  } else if (b_whole) {
    b = AlongDim(shape, b, a.dim);
  }
  TESSERA_CHECK(a.dim == b.dim, "slices of dimensions ", a.dim, " and ", b.dim);
}

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
};

// Rows of the outer index that the part's range touches.
Interval RowsOf(const Factors& factors, const TensorPart& part) {
  const int64_t row = part.stored_size * factors.inner;
  if (row == 0 || part.count == 0) return {};
  return {part.first / row, base::CeilDiv(part.first + part.count, row)};
}

// Elements of one row that the part holds, as offsets into the row of the global tensor.
Interval InRow(const Factors& factors, const TensorPart& part, int64_t row) {
  const int64_t row_first = row * part.stored_size * factors.inner;
  const int64_t begin = std::max<int64_t>(part.first - row_first, 0);
  const int64_t end = std::min(part.first + part.count - row_first, part.size * factors.inner);
  const int64_t shift = part.begin * factors.inner;
  return {begin + shift, end + shift};
}

// Where element `in_row` of the global tensor's row lies, counted from the part's first element.
int64_t OffsetOf(const Factors& factors, const TensorPart& part, int64_t row, int64_t in_row) {
  return (row * part.stored_size - part.begin) * factors.inner + in_row - part.first;
}

// How many elements before stored element `index` are not padding.
int64_t ValidBefore(const Factors& factors, const TensorPart& part, int64_t index) {
  const int64_t row = part.stored_size * factors.inner;
  if (row == 0) return 0;
  const int64_t valid = part.size * factors.inner;
  return index / row * valid + std::min(index % row, valid);
}

}  // namespace

TensorPart WholeSlice(const std::vector<int64_t>& shape, int dim, int64_t begin, int64_t size,
                      int64_t stored_size) {
  const Factors factors = FactorsOf(shape, dim);
  return {.dim = dim,
          .begin = begin,
          .size = size,
          .stored_size = stored_size,
          .first = 0,
          .count = factors.outer * stored_size * factors.inner};
}

TensorPart WholeTensor(const std::vector<int64_t>& shape) {
  return WholeSlice(shape, 0, 0, shape.at(0), shape.at(0));
}

TensorPart WithoutPadding(const std::vector<int64_t>& shape, const TensorPart& part) {
  const Factors factors = FactorsOf(shape, part.dim);
  TensorPart dense = part;
  dense.stored_size = part.size;
  dense.first = ValidBefore(factors, part, part.first);
  dense.count = ValidBefore(factors, part, part.first + part.count) - dense.first;
  return dense;
}

bool AreComparable(const std::vector<int64_t>& shape, const TensorPart& a, const TensorPart& b) {
  return a.dim == b.dim || IsWhole(shape, a) || IsWhole(shape, b);
}

int64_t CopyOverlap(const std::vector<int64_t>& shape, const TensorPart& from, const float* source,
                    const TensorPart& to, float* destination) {
  TensorPart a = from;
  TensorPart b = to;
  AlignDims(shape, a, b);
  const Factors factors = FactorsOf(shape, a.dim);
  const Interval a_rows = RowsOf(factors, a);
  const Interval b_rows = RowsOf(factors, b);
  int64_t copied = 0;
  for (int64_t row = std::max(a_rows.begin, b_rows.begin); row < std::min(a_rows.end, b_rows.end);
       ++row) {
    const Interval in_a = InRow(factors, a, row);
    const Interval in_b = InRow(factors, b, row);
    const int64_t begin = std::max(in_a.begin, in_b.begin);
    const int64_t count = std::min(in_a.end, in_b.end) - begin;
    if (count <= 0) continue;
    std::memcpy(destination + OffsetOf(factors, b, row, begin),
                source + OffsetOf(factors, a, row, begin),
                static_cast<size_t>(count) * sizeof(float));
    copied += count;
  }
  return copied;
}

bool MayOverlap(const std::vector<int64_t>& shape, const TensorPart& a, const TensorPart& b) {
  TensorPart x = a;
  TensorPart y = b;
  AlignDims(shape, x, y);
  const Factors factors = FactorsOf(shape, x.dim);
  const Interval x_rows = RowsOf(factors, x);
  const Interval y_rows = RowsOf(factors, y);
  if (std::max(x_rows.begin, y_rows.begin) >= std::min(x_rows.end, y_rows.end)) return false;
  if (std::max(x.begin, y.begin) >= std::min(x.begin + x.size, y.begin + y.size)) return false;
  if (factors.outer > 1) return true;
  const Interval in_x = InRow(factors, x, 0);
  const Interval in_y = InRow(factors, y, 0);
  return std::max(in_x.begin, in_y.begin) < std::min(in_x.end, in_y.end);
}

}  // namespace tessera::engine
