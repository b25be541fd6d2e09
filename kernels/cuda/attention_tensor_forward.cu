#include "cost_model/base/math.h"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_tensor.cuh"
#include "kernels/cuda/launch.h"

namespace tessera::kernels::cuda {
namespace {

// Tiles of a block. A warp owns 32 queries, so that each fragment of keys or values that it loads
// enters two products. For wide heads fewer keys at once: their sums take the registers.
template <typename TValue, int kWidthValue>
struct ForwardTiles {
  using T = TValue;
  static constexpr int kWidth = kWidthValue;
  static constexpr int kStride = kTileStride<kWidth>;
  static constexpr int kRowTiles = 2;
  static constexpr int kWarpQueries = kRowTiles * kFragment;
  static constexpr int kQueries = kTensorWarps * kWarpQueries;
  static constexpr int kKeys = kWidth <= 64 ? 64 : 32;
  static constexpr int kKeyTiles = kKeys / kFragment;
  static constexpr int kWidthTiles = kWidth / kFragment;
  // Floats of a row of scores; the row's probabilities take its place, in T.
  static constexpr int kScoreStride = kKeys + 4;
  static constexpr int kProbabilityStride =
      kScoreStride * static_cast<int>(sizeof(float) / sizeof(T));

  // Shared memory, in bytes.
  static constexpr int kQ = 0;
  static constexpr int kK = kQ + kQueries * kStride * static_cast<int>(sizeof(T));
  static constexpr int kV = kK + kKeys * kStride * static_cast<int>(sizeof(T));
  static constexpr int kScores = kV + kKeys * kStride * static_cast<int>(sizeof(T));
  static constexpr int kFactors =
      kScores + kQueries * kScoreStride * static_cast<int>(sizeof(float));
  static constexpr int kMap = kFactors + kQueries * static_cast<int>(sizeof(float));
  static constexpr int kBytes = kMap + FragmentMap::kSharedBytes;
};

// The queries of one warp: their scores, softmax and sums.
//
// Scores pass through shared memory, where each row belongs to two lanes: they find its maximum and
// sum, and leave its probabilities and the factor that its older sums need.
template <typename Tiles>
class WarpQueries {
 public:
  using T = typename Tiles::T;

  // first: the block's first query.
  __device__ __forceinline__ WarpQueries(char* shared, const AttentionSizes& sizes,
                                         const AttentionDropoutRule& dropout, int64_t first)
      : sizes_(sizes),
        dropout_(dropout),
        warp_(threadIdx.x / kWarpSize),
        first_(first + warp_ * Tiles::kWarpQueries),
        log2_scale_(sizes.scale * kLog2E),
        q_(reinterpret_cast<T*>(shared + Tiles::kQ) + warp_ * Tiles::kWarpQueries * Tiles::kStride),
        scores_(reinterpret_cast<float*>(shared + Tiles::kScores) +
                warp_ * Tiles::kWarpQueries * Tiles::kScoreStride),
        factors_(reinterpret_cast<float*>(shared + Tiles::kFactors) + warp_ * Tiles::kWarpQueries),
        map_(shared + Tiles::kMap, scores_) {
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
      max_[r] = -INFINITY;
      total_[r] = 0;
#pragma unroll
      for (int w = 0; w < Tiles::kWidthTiles; ++w) wmma::fill_fragment(sums_[r][w], 0.0F);
    }
  }

  __device__ __forceinline__ bool Sees(int64_t key) const {
    return key < first_ + Tiles::kWarpQueries + sizes_.shift;
  }

  // Scores of the keys from first_key on, and their softmax so far; older sums are rescaled.
  __device__ __forceinline__ void AddKeys(const T* keys, int64_t first_key) {
    StoreScores(keys);
    __syncwarp();
    if (sizes_.documents.IsOn()) HideDocuments(first_key);
    bool rescales = false;
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) rescales |= UpdateRow(r, first_key);
    if (dropout_.IsOn()) DropProbabilities(first_key);
    __syncwarp();
    if (__any_sync(kAllLanes, rescales)) ScaleSums();
  }

  // Adds the values of the keys that came last.
  __device__ __forceinline__ void AddValues(const T* values) {
    const auto* const probabilities = reinterpret_cast<const T*>(scores_);
#pragma unroll
    for (int k = 0; k < Tiles::kKeyTiles; ++k) {
      LeftFragment<T> left[Tiles::kRowTiles];
#pragma unroll
      for (int r = 0; r < Tiles::kRowTiles; ++r) {
        wmma::load_matrix_sync(
            left[r], probabilities + r * kFragment * Tiles::kProbabilityStride + k * kFragment,
            Tiles::kProbabilityStride);
      }
#pragma unroll
      for (int w = 0; w < Tiles::kWidthTiles; ++w) {
        RightFragment<T> right;
        wmma::load_matrix_sync(right, values + k * kFragment * Tiles::kStride + w * kFragment,
                               Tiles::kStride);
#pragma unroll
        for (int r = 0; r < Tiles::kRowTiles; ++r) {
          wmma::mma_sync(sums_[r][w], left[r], right, sums_[r][w]);
        }
      }
    }
  }

  // The sums divided by the softmax's total, in the place of the queries, and its logarithm.
  __device__ __forceinline__ void Finish(const HeadRows<T>& out, float* log_sum_exp,
                                         int64_t sequence, int head_dim) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
      const int row = r * kFragment + lane % kFragment;
      if (lane >= kFragment) continue;
      // A query that sees no key has no output.
      factors_[row] = total_[r] == 0 ? 0.0F : dropout_.rule.scale / total_[r];
      if (first_ + row < sequence) {
        log_sum_exp[first_ + row] = max_[r] * kLn2 + logf(total_[r]);
      }
    }
    __syncwarp();
    ScaleSums();
    const FragmentPositions positions = map_.Positions();
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
#pragma unroll
      for (int w = 0; w < Tiles::kWidthTiles; ++w) {
        positions.Store(sums_[r][w], q_ + r * kFragment * Tiles::kStride + w * kFragment,
                        Tiles::kStride);
      }
    }
    __syncwarp();
    StoreRows<Tiles::kWarpQueries, Tiles::kWidth>(q_, out, first_, sequence, head_dim);
  }

 private:
  static constexpr int kHalf = Tiles::kKeys / 2;  // columns of a row that a lane has

  __device__ __forceinline__ void StoreScores(const T* keys) {
    Accumulator products[Tiles::kRowTiles][Tiles::kKeyTiles];
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
#pragma unroll
      for (int k = 0; k < Tiles::kKeyTiles; ++k) wmma::fill_fragment(products[r][k], 0.0F);
    }
#pragma unroll
    for (int w = 0; w < Tiles::kWidthTiles; ++w) {
      LeftFragment<T> left[Tiles::kRowTiles];
#pragma unroll
      for (int r = 0; r < Tiles::kRowTiles; ++r) {
        wmma::load_matrix_sync(left[r], q_ + r * kFragment * Tiles::kStride + w * kFragment,
                               Tiles::kStride);
      }
#pragma unroll
      for (int k = 0; k < Tiles::kKeyTiles; ++k) {
        TransposedFragment<T> right;
        wmma::load_matrix_sync(right, keys + k * kFragment * Tiles::kStride + w * kFragment,
                               Tiles::kStride);
#pragma unroll
        for (int r = 0; r < Tiles::kRowTiles; ++r) {
          wmma::mma_sync(products[r][k], left[r], right, products[r][k]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
#pragma unroll
      for (int k = 0; k < Tiles::kKeyTiles; ++k) {
        wmma::store_matrix_sync(scores_ + r * kFragment * Tiles::kScoreStride + k * kFragment,
                                products[r][k], Tiles::kScoreStride, wmma::mem_row_major);
      }
    }
  }

  // -infinity where a key lies before its query's document, in this lane's part of the scores.
  __device__ __forceinline__ void HideDocuments(int64_t first_key) {
    const int lane = threadIdx.x % kWarpSize;
    const int column = lane / kFragment * kHalf;
#pragma unroll 1
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
      const int row = r * kFragment + lane % kFragment;
      const int64_t query = min(first_ + row, sizes_.sequence - 1);
      const int64_t first_shown = sizes_.documents.FirstKeyOf(blockIdx.z, query) - first_key;
      const auto end = static_cast<int>(min(first_shown - column, int64_t{kHalf}));
#pragma unroll 1
      for (int i = 0; i < end; ++i) {
        scores_[row * Tiles::kScoreStride + column + i] = -INFINITY;
      }
    }
  }

  // One of this lane's rows: its half of the scores becomes probabilities under the maximum so far.
  // A query that has seen no key yet, as those of a later document have not, has nothing to
  // rescale. True if older sums need a factor.
  __device__ __forceinline__ bool UpdateRow(int r, int64_t first_key) {
    const int lane = threadIdx.x % kWarpSize;
    const int row = r * kFragment + lane % kFragment;
    const int column = lane / kFragment * kHalf;
    float values[kHalf];
    Load<kHalf>(scores_ + row * Tiles::kScoreStride + column, values);
    // In units of the tile: the first column that this query does not see.
    const auto hidden = static_cast<int>(
        min(sizes_.EndOfKeys(first_ + row + 1) - first_key, int64_t{Tiles::kKeys}));
    float max = max_[r];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      values[i] = column + i < hidden ? values[i] * log2_scale_ : -INFINITY;
      max = fmaxf(max, values[i]);
    }
    max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, kFragment));
    const float subtracted = max == -INFINITY ? 0.0F : max;
    float total = 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      values[i] = exp2f(values[i] - subtracted);
      total += values[i];
    }
    total += __shfl_xor_sync(kAllLanes, total, kFragment);
    const float factor = exp2f(max_[r] - subtracted);
    if (lane < kFragment) factors_[row] = factor;
    total_[r] = total_[r] * factor + total;
    max_[r] = max;
    __syncwarp();  // the row's scores are read
    Store<kHalf>(values, reinterpret_cast<T*>(scores_) + row * Tiles::kProbabilityStride + column);
    return factor != 1.0F;
  }

  // Zeros where a probability of this lane's rows is dropped; the output's factor scales the
  // others. Done where they lie, as registers are scarce.
  __device__ __forceinline__ void DropProbabilities(int64_t first_key) {
    HeadDraws draws(dropout_, blockIdx.z, blockIdx.y);
    const int lane = threadIdx.x % kWarpSize;
    const int column = lane / kFragment * kHalf;
#pragma unroll 1
    for (int i = 0; i < Tiles::kRowTiles * kHalf; ++i) {
      const int row = i / kHalf * kFragment + lane % kFragment;
      const int at = column + i % kHalf;
      if (draws.Keeps(first_ + row, first_key + at)) continue;
      reinterpret_cast<T*>(scores_)[row * Tiles::kProbabilityStride + at] = FromFloat<T>(0.0F);
    }
  }

  // Sums times the factors of their rows.
  __device__ __forceinline__ void ScaleSums() {
    const FragmentPositions positions = map_.Positions();
#pragma unroll
    for (int r = 0; r < Tiles::kRowTiles; ++r) {
      float factors[FragmentPositions::kCount];
#pragma unroll
      for (int e = 0; e < FragmentPositions::kCount; ++e) {
        factors[e] = factors_[r * kFragment + positions.Row(e)];
      }
#pragma unroll
      for (int w = 0; w < Tiles::kWidthTiles; ++w) {
#pragma unroll
        for (int e = 0; e < FragmentPositions::kCount; ++e) sums_[r][w].x[e] *= factors[e];
      }
    }
  }

  const AttentionSizes& sizes_;
  const AttentionDropoutRule& dropout_;
  const int warp_;
  const int64_t first_;
  const float log2_scale_;
  T* const q_;
  float* const scores_;
  float* const factors_;
  const FragmentMap map_;
  Accumulator sums_[Tiles::kRowTiles][Tiles::kWidthTiles];
  // Of the scores times log2(e), so that exponentials are powers of two.
  float max_[Tiles::kRowTiles];
  float total_[Tiles::kRowTiles];
};

// Online softmax over tiles of keys: Dao 2023, arXiv:2307.08691, algorithm 1. While a tile of keys
// is multiplied the values come in, and the next keys while the values are.
template <typename Tiles>
__global__ void __launch_bounds__(kTensorThreads, 1)
    TensorForwardKernel(ForwardParams<typename Tiles::T> params) {
  using T = typename Tiles::T;
  const AttentionSizes& sizes = params.sizes;
  char* const shared = DynamicShared<char>();
  T* const k_tile = reinterpret_cast<T*>(shared + Tiles::kK);
  T* const v_tile = reinterpret_cast<T*>(shared + Tiles::kV);
  const int64_t kv_head = blockIdx.y / sizes.group_size;
  const auto k = KeyHead(params.k, params.kv_stride, blockIdx.z, kv_head, sizes);
  const auto v = KeyHead(params.v, params.kv_stride, blockIdx.z, kv_head, sizes);
  // Blocks with many keys first.
  const int64_t first = (int64_t{gridDim.x} - 1 - blockIdx.x) * Tiles::kQueries;
  const int64_t num_keys = sizes.EndOfKeys(first + Tiles::kQueries);
  const int64_t first_key = sizes.FirstTileOfKeys(blockIdx.z, first, Tiles::kKeys);

  WarpQueries<Tiles> queries(shared, sizes, params.dropout, first);
  TileInFlight<T, Tiles::kQueries, Tiles::kWidth> q_rows;
  q_rows.Fetch(QueryHead(params.q, params.q_stride, blockIdx.z, blockIdx.y, sizes), first,
               sizes.sequence, sizes.head_dim);
  q_rows.Put(reinterpret_cast<T*>(shared + Tiles::kQ));
  TileInFlight<T, Tiles::kKeys, Tiles::kWidth> rows;
  rows.Fetch(k, first_key, sizes.num_keys, sizes.head_dim);
  rows.Put(k_tile);
  __syncthreads();
  for (int64_t key = first_key; key < num_keys; key += Tiles::kKeys) {
    rows.Fetch(v, key, sizes.num_keys, sizes.head_dim);
    if (queries.Sees(key)) queries.AddKeys(k_tile, key);
    rows.Put(v_tile);
    __syncthreads();  // the keys are read, the values are there
    rows.Fetch(k, key + Tiles::kKeys, num_keys, sizes.head_dim);
    if (queries.Sees(key)) queries.AddValues(v_tile);
    rows.Put(k_tile);
    __syncthreads();  // the values are read, the next keys are there
  }
  queries.Finish(QueryHead(params.out, params.out_stride, blockIdx.z, blockIdx.y, sizes),
                 params.log_sum_exp + sizes.StatsRow(blockIdx.z, blockIdx.y), sizes.sequence,
                 sizes.head_dim);
}

}  // namespace

bool TensorCoresTake(const AttentionForwardArgs& args) {
  return args.q.dtype != base::DType::kFloat32 &&
         args.stats_kind == base::AttentionStats::kLogSumExp && args.head_dim <= 128 &&
         CanVectorize(kChunk, {args.q.data, args.k.data, args.v.data, args.out.data},
                      {args.head_dim, args.qkv_stride, args.kv_stride, args.out_stride});
}

void TensorAttentionForward(const LaunchContext& context, const AttentionForwardArgs& args) {
  WithTensorType(args.q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithTensorWidth(args.head_dim, [&](auto width) {
      using Tiles = ForwardTiles<T, decltype(width)::value>;
      const LaunchShape shape{
          .grid = dim3(static_cast<unsigned>(base::CeilDiv(args.sequence, Tiles::kQueries)),
                       static_cast<unsigned>(args.num_heads), static_cast<unsigned>(args.batch)),
          .block = dim3(kTensorThreads),
          .shared_bytes = Tiles::kBytes};
      Launch("AttentionForward", TensorForwardKernel<Tiles>, shape, context.stream,
             ParamsOf<T>(args));
    });
  });
}

}  // namespace tessera::kernels::cuda
