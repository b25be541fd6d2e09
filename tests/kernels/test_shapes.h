// Shapes that the tests of several element types run over.
#pragma once

#include <cmath>
#include <cstdint>

#include "tests/kernels/reference.h"

namespace tessera::kernels::testing {

struct RowsShape {
  int64_t num_rows, width;

  int64_t Size() const { return num_rows * width; }
};

struct ProductShape {
  int64_t m, n, k;
};

inline constexpr base::MatMulLayout kMatMulLayouts[] = {
    base::MatMulLayout::kNN, base::MatMulLayout::kNT, base::MatMulLayout::kTN};

inline reference::AttentionShape MakeAttentionShape(int64_t batch, int64_t sequence,
                                                    int64_t num_heads, int64_t num_kv_heads,
                                                    int64_t head_dim) {
  return {batch,        sequence, num_heads,
          num_kv_heads, head_dim, 1.0 / std::sqrt(static_cast<double>(head_dim))};
}

}  // namespace tessera::kernels::testing
