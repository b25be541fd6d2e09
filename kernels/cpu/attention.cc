#include "kernels/cpu/attention.h"

#include "kernels/cpu/blas.h"
#include "kernels/cpu/dropout.h"

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

void FillHidden(const AttentionDocuments& documents, int64_t batch, const QueryBlock& block,
                float value, float* scores) {
  for (int64_t key = block.first_hidden; key < block.num_keys; ++key) {
    float* const column = scores + key * kQueryBlock;
    std::fill(column, column + (key - block.first_hidden + 1), value);
  }
  if (!documents) return;
  for (int64_t i = 0; i < block.num_rows; ++i) {
    const int64_t first = documents.FirstKeyOf(batch, block.begin + i);
    for (int64_t key = 0; key < std::min(first, block.num_keys); ++key) {
      scores[key * kQueryBlock + i] = value;
    }
  }
}

void DropWeights(const AttentionDropout& dropout, int64_t batch, int64_t head,
                 const QueryBlock& block, std::vector<uint32_t>& bits, float* weights) {
  const uint32_t threshold = DropThreshold(dropout.probability);
  const base::TokenPositions& keys = dropout.keys;
  bits.resize(static_cast<size_t>(block.num_keys));
  for (int64_t i = 0; i < block.num_rows; ++i) {
    const int64_t num_seen = std::min(block.first_hidden + i, block.num_keys);
    const int64_t num_early = std::clamp(keys.num_early, int64_t{0}, num_seen);
    const uint64_t row = dropout.RowOf(batch, head, block.begin + i);
    // Positions run on from key to key, but for one gap.
    FillBits(dropout.key, row + static_cast<uint64_t>(keys.Of(0)), num_early, bits.data());
    FillBits(dropout.key, row + static_cast<uint64_t>(keys.Of(num_early)), num_seen - num_early,
             bits.data() + num_early);
    for (int64_t key = 0; key < num_seen; ++key) {
      if (bits[static_cast<size_t>(key)] < threshold) weights[key * kQueryBlock + i] = 0;
    }
  }
}

}  // namespace tessera::kernels
