// What the forward and the backward pass of attention share: products between one block of queries
// of one head and the keys that it sees.
//
// Scores of a block are kept transposed, [num_keys, kQueryBlock]: the softmax then runs down the
// columns, a vector of queries at a time, and of all operands only the narrow block of queries has
// to be transposed for the matrix products.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cost_model/base/op.h"
#include "kernels/cpu/rows.h"
#include "kernels/document_args.h"
#include "kernels/dropout_args.h"

namespace tessera::kernels {

// Queries are taken in blocks of this many rows, each with the keys up to its own last row: smaller
// blocks waste less above the diagonal. A shorter last block is padded with zero queries.
constexpr int64_t kQueryBlock = 32;

// The rows of a block inside its sequence, and the keys that they see: the first row those before
// first_hidden, each later one a key more.
struct QueryBlock {
  int64_t begin = 0, num_rows = 0, num_keys = 0, first_hidden = 0;
};

template <typename Args>
QueryBlock QueryBlockAt(int64_t index, const Args& args) {
  const int64_t begin = index * kQueryBlock;
  const int64_t end = std::min(args.sequence, begin + kQueryBlock);
  if (args.mask == base::AttentionMask::kFull) {
    return {begin, end - begin, args.key_sequence, args.key_sequence};
  }
  // The last query meets the last key.
  const int64_t shift = args.key_sequence - args.sequence;
  return {begin, end - begin, end + shift, begin + shift + 1};
}

// Keys or values of one head in an array of all heads, of any type: read a piece at a time.
struct HeadRows {
  ConstArray data;
  int64_t stride = 0;
  int64_t head_dim = 0;
};

// x[num_rows, num_cols] transposed into xt[num_cols, kQueryBlock], with zeros from num_rows on.
void TransposeBlock(const Rows& x, int64_t num_rows, int64_t num_cols, float* xt);

// result[num_keys, kQueryBlock] = factor * keys[num_keys, head_dim] block_t[head_dim, kQueryBlock].
void MultiplyKeys(const HeadRows& keys, int64_t num_keys, const float* block_t, float factor,
                  float* result, RowReader& reader);

// sums[num_rows, head_dim] = factor * weights[num_keys, kQueryBlock]^T values[num_keys, head_dim],
// for the rows of the block, or += with beta 1 in place of 0.
void SumOverKeys(const float* weights, const QueryBlock& block, const HeadRows& values,
                 float factor, float beta, const MutableRows& sums, RowReader& reader);

// sums[num_keys, head_dim] = factor * weights[num_keys, kQueryBlock] rows[num_rows, head_dim], or
// += with beta 1 in place of 0.
void SumOverQueries(const float* weights, const QueryBlock& block, const Rows& rows,
                    int64_t head_dim, float factor, float beta, const MutableRows& sums);

// Puts `value` wherever a key lies behind its query, or before its query's document.
void FillHidden(const AttentionDocuments& documents, int64_t batch, const QueryBlock& block,
                float value, float* scores);

// Zeros wherever the key of a query of a head is dropped; the others are not scaled yet. `bits` is
// memory to work in.
void DropWeights(const AttentionDropout& dropout, int64_t batch, int64_t head,
                 const QueryBlock& block, std::vector<uint32_t>& bits, float* weights);

}  // namespace tessera::kernels
