#include "cost_model/base/math.h"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_plain.cuh"
#include "kernels/cuda/launch.h"

namespace tessera::kernels::cuda {
namespace {

// One block of queries of one head: what its eight-lane groups know of their rows.
template <typename T, typename Tile>
class QueryBlock {
 public:
  __device__ __forceinline__ QueryBlock(const ForwardParams<T>& params, int64_t first,
                                        float* shared)
      : params_(params),
        first_(first),
        k_(KeyHead(params.k, params.kv_stride, blockIdx.z, blockIdx.y / params.sizes.group_size,
                   params.sizes)),
        v_(KeyHead(params.v, params.kv_stride, blockIdx.z, blockIdx.y / params.sizes.group_size,
                   params.sizes)),
        q_tile_(shared),
        kv_tile_(shared + Tile::kFloats),
        weights_(shared + 2 * Tile::kFloats) {
    Tile::LoadTile(QueryHead(params.q, params.q_stride, blockIdx.z, blockIdx.y, params.sizes),
                   first, params.sizes.sequence, params.sizes, q_tile_);
  }

  // Takes the keys from first_key on, a tile of them, into the softmax and its sums.
  __device__ __forceinline__ void AddKeys(int64_t first_key) {
    typename Tile::Scores scores;
    MultiplyKeys(first_key, scores);
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i) UpdateRow(i, scores[i]);
    if (params_.dropout.IsOn()) DropScores(first_key, scores);
    Tile::StoreWeights(scores, weights_);
    __syncthreads();  // the keys are read
    Tile::LoadTile(v_, first_key, params_.sizes.num_keys, params_.sizes, kv_tile_);
    __syncthreads();
    Tile::AddWeighted(weights_, kv_tile_, params_.sizes.head_dim, sums_);
    __syncthreads();  // the values are read
  }

  __device__ __forceinline__ void StoreOutput() const {
    const AttentionSizes& sizes = params_.sizes;
    float factor[kGroupRows];
    for (int i = 0; i < kGroupRows; ++i) {
      // A query that sees no key has no output.
      factor[i] = total_[i] == 0 ? 0.0F : params_.dropout.rule.scale / total_[i];
      const int64_t row = first_ + Tile::Row(i);
      if (params_.log_sum_exp != nullptr && Tile::Lane() == 0 && row < sizes.sequence) {
        params_.log_sum_exp[sizes.StatsRow(blockIdx.z, blockIdx.y) + row] =
            max_[i] + logf(total_[i]);
      }
    }
    Tile::StoreSums(sums_, factor,
                    QueryHead(params_.out, params_.out_stride, blockIdx.z, blockIdx.y, sizes),
                    first_, sizes.sequence, sizes);
  }

  // Probabilities of the keys from first_key on; they are zero where no query of the block sees
  // them.
  __device__ __forceinline__ void StoreProbabilities(int64_t first_key) {
    typename Tile::Scores scores = {};
    const AttentionSizes& sizes = params_.sizes;
    const bool is_seen = first_key < sizes.EndOfKeys(first_ + Tile::kRows);
    if (is_seen) MultiplyKeys(first_key, scores);
    for (int i = 0; i < kGroupRows; ++i) {
      const int64_t row = first_ + Tile::Row(i);
      if (row >= sizes.sequence) continue;
      T* const to = params_.probabilities + sizes.ProbabilitiesRow(blockIdx.z, blockIdx.y, row);
      for (int j = 0; j < Tile::kColumns; ++j) {
        const int64_t key = first_key + Tile::Column(j);
        const bool has_keys = is_seen && total_[i] != 0;
        const float p = has_keys ? expf(scores[i][j] - max_[i]) / total_[i] : 0.0F;
        if (key < sizes.num_keys) to[key] = FromFloat<T>(p);
      }
    }
    __syncthreads();  // the keys are read
  }

 private:
  // Scaled scores, -infinity where a query does not see the key.
  __device__ __forceinline__ void MultiplyKeys(int64_t first_key, typename Tile::Scores& scores) {
    Tile::LoadTile(k_, first_key, params_.sizes.num_keys, params_.sizes, kv_tile_);
    __syncthreads();
    Tile::Multiply(q_tile_, kv_tile_, params_.sizes.head_dim, scores);
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kColumns; ++j) {
        const bool hidden =
            params_.sizes.IsHidden(first_ + Tile::Row(i), first_key + Tile::Column(j));
        scores[i][j] = hidden ? -INFINITY : scores[i][j] * params_.sizes.scale;
      }
    }
    if (params_.sizes.documents.IsOn()) HideDocuments(first_key, scores);
  }

  // -infinity where a key lies before its query's document.
  __device__ __forceinline__ void HideDocuments(int64_t first_key,
                                                typename Tile::Scores& scores) const {
    const AttentionSizes& sizes = params_.sizes;
    const uint32_t shown = Tile::BitsOf([&](int row, int column) {
      const int64_t query = min(first_ + row, sizes.sequence - 1);
      return first_key + column >= sizes.documents.FirstKeyOf(blockIdx.z, query);
    });
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kColumns; ++j) {
        if (!Tile::HasBit(shown, i, j)) scores[i][j] = -INFINITY;
      }
    }
  }

  // Scores become exp(score - max) with the maximum so far, to which older sums are rescaled. A
  // query that has seen no key yet, as those of a later document have not, has nothing to rescale.
  __device__ __forceinline__ void UpdateRow(int i, float (&scores)[Tile::kColumns]) {
    float max = scores[0];
#pragma unroll
    for (int j = 1; j < Tile::kColumns; ++j) max = fmaxf(max, scores[j]);
    max = fmaxf(max_[i], WarpReduce<kGroupLanes>(max, MaxOp()));
    const float subtracted = max == -INFINITY ? 0.0F : max;
    const float correction = expf(max_[i] - subtracted);
    float total = 0;
#pragma unroll
    for (int j = 0; j < Tile::kColumns; ++j) {
      scores[j] = expf(scores[j] - subtracted);
      total += scores[j];
    }
    total_[i] = total_[i] * correction + WarpReduce<kGroupLanes>(total, SumOp());
    max_[i] = max;
#pragma unroll
    for (int quad = 0; quad < Tile::kQuads; ++quad) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums_[i][quad][e] *= correction;
    }
  }

  // Zeros where a probability is dropped; the output's factor scales the others.
  __device__ __forceinline__ void DropScores(int64_t first_key,
                                             typename Tile::Scores& scores) const {
    HeadDraws draws(params_.dropout, blockIdx.z, blockIdx.y);
    const uint32_t kept = Tile::BitsOf(
        [&](int row, int column) { return draws.Keeps(first_ + row, first_key + column); });
    Tile::Select(kept, scores);
  }

  const ForwardParams<T>& params_;
  const int64_t first_;
  const HeadRows<const T> k_, v_;
  float* const q_tile_;
  float* const kv_tile_;
  float* const weights_;
  typename Tile::Sums sums_ = {};
  float max_[kGroupRows] = {-INFINITY, -INFINITY};
  float total_[kGroupRows] = {};
};

// Online softmax over tiles of keys: Dao 2023, arXiv:2307.08691, algorithm 1.
template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) PlainForwardKernel(ForwardParams<T> params) {
  // Blocks with many keys first.
  const int64_t first = (int64_t{gridDim.x} - 1 - blockIdx.x) * Tile::kRows;
  QueryBlock<T, Tile> block(params, first, DynamicShared<float>());
  const int64_t num_keys = params.sizes.EndOfKeys(first + Tile::kRows);
  int64_t key = params.sizes.FirstTileOfKeys(blockIdx.z, first, Tile::kRows);
  for (; key < num_keys; key += Tile::kRows) block.AddKeys(key);
  block.StoreOutput();
  if (params.probabilities == nullptr) return;
  for (key = 0; key < params.sizes.num_keys; key += Tile::kRows) {
    block.StoreProbabilities(key);
  }
}

}  // namespace

void PlainAttentionForward(const LaunchContext& context, const AttentionForwardArgs& args) {
  WithFloatType(args.q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithPlainTile(args.head_dim, [&](auto tile) {
      using Tile = decltype(tile);
      const LaunchShape shape{
          .grid = dim3(static_cast<unsigned>(base::CeilDiv(args.sequence, Tile::kRows)),
                       static_cast<unsigned>(args.num_heads), static_cast<unsigned>(args.batch)),
          .block = dim3(Tile::kThreads),
          .shared_bytes = (2 * Tile::kFloats + Tile::kWeightFloats) * sizeof(float)};
      Launch("AttentionForward", PlainForwardKernel<T, Tile>, shape, context.stream,
             ParamsOf<T>(args));
    });
  });
}

}  // namespace tessera::kernels::cuda
