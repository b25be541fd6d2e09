// The backward pass of attention on tensor cores, of one warp: probabilities and score gradients
// of its rows with a tile of the other side, and the sums that become gradients.
#pragma once

#include "kernels/cuda/attention_tensor.cuh"

namespace tessera::kernels::cuda {

// Tiles of a block: its own side's rows stay, tiles of the other side pass by. A warp owns 32 rows,
// so that a fragment of the other side enters two products, or 16 where rows are wide.
template <typename TValue, int kWidthValue, Side kSideValue>
struct GradientTiles {
  using T = TValue;
  static constexpr Side kSide = kSideValue;
  static constexpr int kWidth = kWidthValue;
  static constexpr int kStride = kTileStride<kWidth>;
  static constexpr int kRowTiles = kWidth <= 64 ? 2 : 1;
  static constexpr int kWarpRows = kRowTiles * kFragment;
  static constexpr int kRows = kTensorWarps * kWarpRows;
  static constexpr int kOtherRows = 32;
  static constexpr int kOtherTiles = kOtherRows / kFragment;
  static constexpr int kWidthTiles = kWidth / kFragment;
  static constexpr int kWeightStride = kTileStride<kOtherRows>;
  static constexpr int kQueries = kSide == Side::kQueries ? kRows : kOtherRows;
  // On a multiprocessor, for the registers of a thread: gradients of keys are two sums, and fp16
  // fragments take twice the registers of bf16's.
  static constexpr int kBlocksAtOnce =
      kSide == Side::kKeys || LeftFragment<T>::num_elements > 8 ? 2 : 3;

  // Shared memory, in bytes.
  static constexpr int kOwnBytes = kRows * kStride * static_cast<int>(sizeof(T));
  static constexpr int kOtherBytes = kOtherRows * kStride * static_cast<int>(sizeof(T));
  static constexpr int kWeightBytes = kRows * kWeightStride * static_cast<int>(sizeof(T));
  static constexpr int kOwnFirst = 0;                             // q or k
  static constexpr int kOwnSecond = kOwnFirst + kOwnBytes;        // dout or v
  static constexpr int kOtherFirst = kOwnSecond + kOwnBytes;      // k or q
  static constexpr int kOtherSecond = kOtherFirst + kOtherBytes;  // v or dout
  static constexpr int kScoreGrads = kOtherSecond + kOtherBytes;
  static constexpr int kProbabilities = kScoreGrads + kWeightBytes;  // of keys only
  static constexpr int kStatistics = kProbabilities + (kSide == Side::kKeys ? kWeightBytes : 0);
  static constexpr int kMap = kStatistics + 2 * kQueries * static_cast<int>(sizeof(float));
  static constexpr int kBytes = kMap + FragmentMap::kSharedBytes;
};

// The rows of one warp.
template <typename Tiles>
class WarpGradients {
 public:
  using T = typename Tiles::T;
  static constexpr bool kIsKeys = Tiles::kSide == Side::kKeys;

  // first: the block's first row.
  __device__ __forceinline__ WarpGradients(char* shared, const AttentionSizes& sizes,
                                           const AttentionDropoutRule& dropout, int64_t first)
      : sizes_(sizes),
        dropout_(dropout),
        shared_(shared),
        warp_row_(static_cast<int>(threadIdx.x) / kWarpSize * Tiles::kWarpRows),
        first_(first + warp_row_),
        map_(shared + Tiles::kMap, reinterpret_cast<float*>(Weights(Tiles::kScoreGrads))) {
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
#pragma unroll
      for (int w = 0; w < Tiles::kWidthTiles; ++w) {
        wmma::fill_fragment(first_sums_[r][w], 0.0F);
        if constexpr (kIsKeys) wmma::fill_fragment(second_sums_[r][w], 0.0F);
      }
    }
  }

  // Whether any key of the own rows and the other side's tile is seen by any of the queries.
  __device__ __forceinline__ bool Meets(int64_t other_first) const {
    return kIsKeys ? other_first + Tiles::kOtherRows + sizes_.shift > first_
                   : other_first < first_ + Tiles::kWarpRows + sizes_.shift;
  }

  // Probabilities and score gradients of a query head with the tile of the other side, from its row
  // other_first on.
  __device__ __forceinline__ void MakeWeights(int64_t head, int64_t other_first) {
    const bool is_cut = IsCut(other_first);
    // Unrolled, all fragments of the own rows would stay in registers, which do not suffice.
#pragma unroll 1
    for (int n = 0; n < Tiles::kOtherTiles; ++n) {
      Accumulator scores[Tiles::kRowTiles];
      Accumulator grads[Tiles::kRowTiles];
      MultiplyRows(n, scores, grads);
#pragma unroll
      for (int r = 0; r < Tiles::kRowTiles; ++r) {
        const uint32_t kept = KeptBits(r, n, head, other_first);
        MakeTileWeights(r, n, is_cut, kept, other_first, scores[r], grads[r]);
      }
    }
    __syncwarp();
  }

  // Score gradients times the other side's first rows, probabilities times its second, to the sums.
  __device__ __forceinline__ void AddWeighted() {
#pragma unroll 1
    for (int n = 0; n < Tiles::kOtherTiles; ++n) {
      AddWeightedRows(n, Weights(Tiles::kScoreGrads), OtherRows(Tiles::kOtherFirst), first_sums_);
      if constexpr (kIsKeys) {
        AddWeightedRows(n, Weights(Tiles::kProbabilities), OtherRows(Tiles::kOtherSecond),
                        second_sums_);
      }
    }
  }

  // Sums, in the place of the own rows, and from there to the gradients.
  __device__ __forceinline__ void Store(const HeadRows<T>& first_grad,
                                        const HeadRows<T>& second_grad) {
    StoreSums(first_sums_, sizes_.scale, OwnRows(Tiles::kOwnFirst));
    if constexpr (kIsKeys) {
      StoreSums(second_sums_, dropout_.rule.scale, OwnRows(Tiles::kOwnSecond));
    }
    __syncwarp();
    StoreRows<Tiles::kWarpRows, Tiles::kWidth>(OwnRows(Tiles::kOwnFirst), first_grad, first_,
                                               NumOwnRows(), sizes_.head_dim);
    if constexpr (kIsKeys) {
      StoreRows<Tiles::kWarpRows, Tiles::kWidth>(OwnRows(Tiles::kOwnSecond), second_grad, first_,
                                                 NumOwnRows(), sizes_.head_dim);
    }
  }

  // Adds the sums to what is there.
  __device__ __forceinline__ void Add(const HeadRows<float>& first_grad,
                                      const HeadRows<float>& second_grad) const {
    AddSums(first_sums_, sizes_.scale, first_grad);
    if constexpr (kIsKeys) AddSums(second_sums_, dropout_.rule.scale, second_grad);
  }

 private:
  using Sums = Accumulator[Tiles::kRowTiles][Tiles::kWidthTiles];

  __device__ __forceinline__ int64_t NumOwnRows() const {
    return kIsKeys ? sizes_.num_keys : sizes_.sequence;
  }

  // Whether any key is hidden from any query. Own keys behind the last one spoil no sum but theirs,
  // which nobody stores.
  __device__ __forceinline__ bool IsCut(int64_t other_first) const {
    return kIsKeys ? first_ + Tiles::kWarpRows - 1 > other_first + sizes_.shift
                   : other_first + Tiles::kOtherRows > sizes_.EndOfKeys(first_ + 1);
  }

  __device__ __forceinline__ T* OwnRows(int place) const {
    return reinterpret_cast<T*>(shared_ + place) + warp_row_ * Tiles::kStride;
  }
  __device__ __forceinline__ const T* OtherRows(int place) const {
    return reinterpret_cast<const T*>(shared_ + place);
  }
  __device__ __forceinline__ T* Weights(int place) const {
    return reinterpret_cast<T*>(shared_ + place) + warp_row_ * Tiles::kWeightStride;
  }

  // Own rows times 16 rows of the other side: q k^T and dout v^T, or their transposes.
  __device__ __forceinline__ void MultiplyRows(int n, Accumulator (&scores)[Tiles::kRowTiles],
                                               Accumulator (&grads)[Tiles::kRowTiles]) const {
    const T* const other_first = OtherRows(Tiles::kOtherFirst) + n * kFragment * Tiles::kStride;
    const T* const other_second = OtherRows(Tiles::kOtherSecond) + n * kFragment * Tiles::kStride;
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
      wmma::fill_fragment(scores[r], 0.0F);
      wmma::fill_fragment(grads[r], 0.0F);
    }
#pragma unroll
    for (int w = 0; w < Tiles::kWidthTiles; ++w) {
      AddProduct(OwnRows(Tiles::kOwnFirst) + w * kFragment, other_first + w * kFragment, scores);
      AddProduct(OwnRows(Tiles::kOwnSecond) + w * kFragment, other_second + w * kFragment, grads);
    }
  }

  static __device__ __forceinline__ void AddProduct(const T* own, const T* other,
                                                    Accumulator (&sums)[Tiles::kRowTiles]) {
    TransposedFragment<T> right;
    wmma::load_matrix_sync(right, other, Tiles::kStride);
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
      LeftFragment<T> left;
      wmma::load_matrix_sync(left, own + r * kFragment * Tiles::kStride, Tiles::kStride);
      wmma::mma_sync(sums[r], left, right, sums[r]);
    }
  }

  // Which probabilities of a lane's part of one tile stay, a bit each.
  __device__ __forceinline__ uint32_t KeptBits(int r, int n, int64_t head,
                                               int64_t other_first) const {
    if (!dropout_.IsOn()) return ~0U;
    HeadDraws draws(dropout_, blockIdx.z, head);
    const FragmentPositions positions = map_.Positions();
    uint32_t kept = 0;
#pragma unroll 1
    for (int e = 0; e < FragmentPositions::kCount; ++e) {
      const int64_t own = first_ + r * kFragment + positions.Row(e);
      const int64_t other = other_first + n * kFragment + positions.Column(e);
      if (kIsKeys ? draws.Keeps(other, own) : draws.Keeps(own, other)) kept |= 1U << e;
    }
    return kept;
  }

  // From products of one tile to probabilities P and score gradients P * (dP - delta), in T; of
  // those that are dropped neither P nor dP counts.
  __device__ __forceinline__ void MakeTileWeights(int r, int n, bool is_cut, uint32_t kept,
                                                  int64_t other_first, const Accumulator& scores,
                                                  const Accumulator& grads) const {
    const auto* const log_sum_exp = reinterpret_cast<const float*>(shared_ + Tiles::kStatistics);
    const float* const delta = log_sum_exp + Tiles::kQueries;
    // Row minus column at which a query sees its last key.
    const auto diagonal = static_cast<int>(other_first + n * kFragment - (first_ + r * kFragment) +
                                           (kIsKeys ? sizes_.shift : -sizes_.shift));
    // Columns of the tile that are keys, where they are.
    const auto end = static_cast<int>(
        kIsKeys ? kFragment
                : min(sizes_.num_keys - other_first - n * kFragment, int64_t{kFragment}));
    T* const score_grads = Weights(Tiles::kScoreGrads) + At(r, n);
    T* const probabilities = Weights(Tiles::kProbabilities) + At(r, n);
    const FragmentPositions positions = map_.Positions();
#pragma unroll
    for (int e = 0; e < FragmentPositions::kCount; ++e) {
      const int row = positions.Row(e);
      const int column = positions.Column(e);
      const int query = kIsKeys ? n * kFragment + column : warp_row_ + r * kFragment + row;
      const bool is_hidden =
          kIsKeys ? row - column > diagonal : row - column < diagonal || column >= end;
      float p = exp2f(scores.x[e] * (sizes_.scale * kLog2E) - log_sum_exp[query]);
      if (is_cut && is_hidden) p = 0;
      const int at = row * Tiles::kWeightStride + column;
      const bool stays = (kept >> e & 1U) != 0;
      const float scale = stays ? dropout_.rule.scale : 0.0F;
      score_grads[at] = FromFloat<T>(p * (grads.x[e] * scale - delta[query]));
      if constexpr (kIsKeys) probabilities[at] = FromFloat<T>(stays ? p : 0.0F);
    }
  }

  static __device__ __forceinline__ int At(int row_tile, int column_tile) {
    return row_tile * kFragment * Tiles::kWeightStride + column_tile * kFragment;
  }

  static __device__ __forceinline__ void AddWeightedRows(int n, const T* weights, const T* other,
                                                         Sums& sums) {
    LeftFragment<T> left[Tiles::kRowTiles];
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
      wmma::load_matrix_sync(left[r], weights + At(r, n), Tiles::kWeightStride);
    }
#pragma unroll
    for (int w = 0; w < Tiles::kWidthTiles; ++w) {
      RightFragment<T> right;
      wmma::load_matrix_sync(right, other + n * kFragment * Tiles::kStride + w * kFragment,
                             Tiles::kStride);
#pragma unroll
      for (int r = 0; r < Tiles::kRowTiles; ++r) {
        wmma::mma_sync(sums[r][w], left[r], right, sums[r][w]);
      }
    }
  }

  __device__ __forceinline__ void AddSums(const Sums& sums, float factor,
                                          const HeadRows<float>& to) const {
    const FragmentPositions positions = map_.Positions();
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
#pragma unroll
      for (int w = 0; w < Tiles::kWidthTiles; ++w) {
#pragma unroll
        for (int e = 0; e < FragmentPositions::kCount; ++e) {
          const int64_t row = first_ + r * kFragment + positions.Row(e);
          const int column = w * kFragment + positions.Column(e);
          if (row >= NumOwnRows() || column >= sizes_.head_dim) continue;
          float* const at = to.Row(row) + column;
          *at = fmaf(sums[r][w].x[e], factor, *at);
        }
      }
    }
  }

  __device__ __forceinline__ void StoreSums(Sums& sums, float factor, T* rows) const {
    const FragmentPositions positions = map_.Positions();
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
#pragma unroll
      for (int w = 0; w < Tiles::kWidthTiles; ++w) {
#pragma unroll
        for (int e = 0; e < FragmentPositions::kCount; ++e) sums[r][w].x[e] *= factor;
        positions.Store(sums[r][w], rows + r * kFragment * Tiles::kStride + w * kFragment,
                        Tiles::kStride);
      }
    }
  }

  const AttentionSizes& sizes_;
  const AttentionDropoutRule& dropout_;
  char* const shared_;
  const int warp_row_;  // of the block
  const int64_t first_;
  const FragmentMap map_;
  Sums first_sums_;   // dq, or dk
  Sums second_sums_;  // dv; of keys only
};

}  // namespace tessera::kernels::cuda
