#include "kernels/cpu/attention.h"

#include "kernels/cpu/blas.h"

namespace tessera::kernels {
namespace {

// Keys in one product. OpenBLAS multiplies up to 100^3 multiply-adds straight from the operands on
// AVX-512 machines, without packing them first: for these narrow products a third faster. Elsewhere
// the pieces are large enough not to matter.
int64_t KeysPerProduct(int64_t head_dim) {
  constexpr int64_t kUnpackedWork = 1'000'000;
  constexpr int64_t kUnit = 16;
  return std::max(kUnit, kUnpackedWork / (kQueryBlock * head_dim) / kUnit * kUnit);
}

// multiply(first, count) over pieces of the keys of a block.
template <typename Multiply>
void ForKeyPieces(int64_t num_keys, int64_t head_dim, const Multiply& multiply) {
  const int64_t most = KeysPerProduct(head_dim);
  for (int64_t first = 0; first < num_keys; first += most) {
    multiply(first, std::min(most, num_keys - first));
  }
}

Rows ReadKeys(const HeadRows& keys, int64_t first, int64_t count, RowReader& reader) {
  return reader.Read(keys.data.At(first * keys.stride), keys.stride, count, keys.head_dim);
}

}  // namespace

void TransposeBlock(const Rows& x, int64_t num_rows, int64_t num_cols, float* xt) {
  for (int64_t col = 0; col < num_cols; ++col) {
    float* const destination = xt + col * kQueryBlock;
    for (int64_t row = 0; row < num_rows; ++row) destination[row] = x.data[row * x.stride + col];
    std::fill(destination + num_rows, destination + kQueryBlock, 0.0F);
  }
}

void MultiplyKeys(const HeadRows& keys, int64_t num_keys, const float* block_t, float factor,
                  float* result, RowReader& reader) {
  ForKeyPieces(num_keys, keys.head_dim, [&](int64_t first, int64_t count) {
    const Rows piece = ReadKeys(keys, first, count, reader);
    Gemm({.m = count,
          .n = kQueryBlock,
          .k = keys.head_dim,
          .alpha = factor,
          .a = piece.data,
          .lda = piece.stride,
          .b = block_t,
          .ldb = kQueryBlock,
          .c = result + first * kQueryBlock,
          .ldc = kQueryBlock});
  });
}

void SumOverKeys(const float* weights, const QueryBlock& block, const HeadRows& values,
                 float factor, float beta, const MutableRows& sums, RowReader& reader) {
  ForKeyPieces(block.num_keys, values.head_dim, [&](int64_t first, int64_t count) {
    const Rows piece = ReadKeys(values, first, count, reader);
    Gemm({.transpose_a = Transpose::kYes,
          .m = block.num_rows,
          .n = values.head_dim,
          .k = count,
          .alpha = factor,
          .a = weights + first * kQueryBlock,
          .lda = kQueryBlock,
          .b = piece.data,
          .ldb = piece.stride,
          .beta = first == 0 ? beta : 1.0F,
          .c = sums.data,
          .ldc = sums.stride});
  });
}

void SumOverQueries(const float* weights, const QueryBlock& block, const Rows& rows,
                    int64_t head_dim, float factor, float beta, const MutableRows& sums) {
  ForKeyPieces(block.num_keys, head_dim, [&](int64_t first, int64_t count) {
    Gemm({.m = count,
          .n = head_dim,
          .k = block.num_rows,
          .alpha = factor,
          .a = weights + first * kQueryBlock,
          .lda = kQueryBlock,
          .b = rows.data,
          .ldb = rows.stride,
          .beta = beta,
          .c = sums.data + first * sums.stride,
          .ldc = sums.stride});
  });
}

void FillHidden(const QueryBlock& block, float value, float* scores) {
  for (int64_t key = block.first_hidden; key < block.num_keys; ++key) {
    float* const column = scores + key * kQueryBlock;
    std::fill(column, column + (key - block.first_hidden + 1), value);
  }
}

}  // namespace tessera::kernels
