#include "cost_model/base/math.h"
#include "kernels/cuda/attention_delta.cuh"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_plain.cuh"
#include "kernels/cuda/launch.h"

namespace tessera::kernels::cuda {
namespace {

// Shared memory of a block, in floats.
template <typename Tile>
struct Layout {
  static constexpr int kOwnFirst = 0;                               // q or k
  static constexpr int kOwnSecond = kOwnFirst + Tile::kFloats;      // dout or v
  static constexpr int kOtherFirst = kOwnSecond + Tile::kFloats;    // k or q
  static constexpr int kOtherSecond = kOtherFirst + Tile::kFloats;  // v or dout
  static constexpr int kScoreGrads = kOtherSecond + Tile::kFloats;
  static constexpr int kProbabilities = kScoreGrads + Tile::kWeightFloats;
  static constexpr int kDelta = kProbabilities + Tile::kWeightFloats;  // of the queries
  static constexpr int kLogSumExp = kDelta + Tile::kRows;
  static constexpr int kFloats = kLogSumExp + Tile::kRows;
};

// With P the probabilities and D the row sums of dout * out: dV = P^T dout, dP = dout V^T,
// dS = P * (dP - D), dQ = scale dS K, dK = scale dS^T Q (Dao et al. 2022, arXiv:2205.14135,
// appendix B.2). Rows of a block's tiles are its own side, columns the other. With dropout dP and
// dV are of the probabilities that stay, scaled.
template <typename T, typename Tile, Side kSide>
class GradientBlock {
 public:
  __device__ __forceinline__ GradientBlock(const BackwardParams<T>& params, int64_t first,
                                           float* shared)
      : params_(params), sizes_(params.sizes), first_(first), shared_(shared) {
    kv_head_ = kSide == Side::kKeys ? blockIdx.y : blockIdx.y / sizes_.group_size;
    if constexpr (kSide == Side::kKeys) {
      LoadKeys(params.k, first, Places::kOwnFirst);
      LoadKeys(params.v, first, Places::kOwnSecond);
    } else {
      LoadQueries(blockIdx.y, first, Places::kOwnFirst, Places::kOwnSecond);
    }
  }

  __device__ __forceinline__ void AddKeys(int64_t first_key) {
    __syncthreads();  // the last tiles are read
    LoadKeys(params_.k, first_key, Places::kOtherFirst);
    LoadKeys(params_.v, first_key, Places::kOtherSecond);
    __syncthreads();
    AddProducts(blockIdx.y, first_key);
  }

  __device__ __forceinline__ void AddQueries(int64_t head, int64_t first_query) {
    __syncthreads();  // the last tiles are read
    LoadQueries(head, first_query, Places::kOtherFirst, Places::kOtherSecond);
    __syncthreads();
    AddProducts(head, first_query);
  }

  __device__ __forceinline__ void StoreGradients() const {
    if constexpr (kSide == Side::kKeys) {
      StoreSums(first_sums_, sizes_.scale, params_.dk, params_.dk_sums);
      StoreSums(second_sums_, params_.dropout.rule.scale, params_.dv, params_.dv_sums);
    } else {
      StoreSums(first_sums_, sizes_.scale, params_.dq, params_.dq_sums);
    }
  }

 private:
  using Places = Layout<Tile>;

  __device__ __forceinline__ void LoadKeys(const T* data, int64_t first, int place) {
    const auto rows = KeyHead(data, params_.kv_stride, blockIdx.z, kv_head_, sizes_);
    Tile::LoadTile(rows, first, sizes_.num_keys, sizes_, shared_ + place);
  }

  __device__ __forceinline__ void LoadQueries(int64_t head, int64_t first, int q_place,
                                              int dout_place) {
    const auto q = QueryHead(params_.q, params_.q_stride, blockIdx.z, head, sizes_);
    const auto dout = QueryHead(params_.dout, params_.out_stride, blockIdx.z, head, sizes_);
    Tile::LoadTile(q, first, sizes_.sequence, sizes_, shared_ + q_place);
    Tile::LoadTile(dout, first, sizes_.sequence, sizes_, shared_ + dout_place);
    LoadDelta<kGroupLanes>(params_, head, first, Tile::kRows, shared_ + Places::kDelta);
    const int row = static_cast<int>(threadIdx.x);
    if (params_.log_sum_exp != nullptr && row < Tile::kRows && first + row < sizes_.sequence) {
      shared_[Places::kLogSumExp + row] =
          params_.log_sum_exp[sizes_.StatsRow(blockIdx.z, head) + first + row];
    }
  }

  __device__ __forceinline__ float Probability(int64_t head, int64_t query, int64_t key,
                                               int tile_query, float product) const {
    if (sizes_.IsHidden(query, key) || query >= sizes_.sequence) return 0;
    if (params_.probabilities != nullptr) {
      const int64_t row = sizes_.ProbabilitiesRow(blockIdx.z, head, query);
      return ToFloat(params_.probabilities[row + key]);
    }
    return expf(product * sizes_.scale - shared_[Places::kLogSumExp + tile_query]);
  }

  // Which keys of the tile lie in their query's document.
  __device__ __forceinline__ uint32_t ShownBits(int64_t other_first) const {
    if (!sizes_.documents.IsOn()) return ~0U;
    return Tile::BitsOf([&](int row, int column) {
      const int64_t own = first_ + row;
      const int64_t other = other_first + column;
      const int64_t query = min(kSide == Side::kKeys ? other : own, sizes_.sequence - 1);
      const int64_t key = kSide == Side::kKeys ? own : other;
      return key >= sizes_.documents.FirstKeyOf(blockIdx.z, query);
    });
  }

  // Which probabilities of the tile stay.
  __device__ __forceinline__ uint32_t KeptBits(int64_t head, int64_t other_first) const {
    if (!params_.dropout.IsOn()) return ~0U;
    HeadDraws draws(params_.dropout, blockIdx.z, head);
    return Tile::BitsOf([&](int row, int column) {
      const int64_t own = first_ + row;
      const int64_t other = other_first + column;
      return kSide == Side::kKeys ? draws.Keeps(other, own) : draws.Keeps(own, other);
    });
  }

  // Tiles of the other side, from its row other_first on, into the sums.
  __device__ __forceinline__ void AddProducts(int64_t head, int64_t other_first) {
    typename Tile::Scores p;
    typename Tile::Scores grads;
    Tile::Multiply(shared_ + Places::kOwnFirst, shared_ + Places::kOtherFirst, sizes_.head_dim, p);
    Tile::Multiply(shared_ + Places::kOwnSecond, shared_ + Places::kOtherSecond, sizes_.head_dim,
                   grads);
    const uint32_t kept = KeptBits(head, other_first);
    const uint32_t shown = ShownBits(other_first);
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kColumns; ++j) {
        const int tile_query = kSide == Side::kKeys ? Tile::Column(j) : Tile::Row(i);
        const int64_t own = first_ + Tile::Row(i);
        const int64_t other = other_first + Tile::Column(j);
        p[i][j] = kSide == Side::kKeys ? Probability(head, other, own, tile_query, p[i][j])
                                       : Probability(head, own, other, tile_query, p[i][j]);
        if (!Tile::HasBit(shown, i, j)) p[i][j] = 0;
        const float scale = Tile::HasBit(kept, i, j) ? params_.dropout.rule.scale : 0.0F;
        grads[i][j] = p[i][j] * (grads[i][j] * scale - shared_[Places::kDelta + tile_query]);
      }
    }
    Tile::StoreWeights(grads, shared_ + Places::kScoreGrads);
    if constexpr (kSide == Side::kKeys) {
      Tile::Select(kept, p);
      Tile::StoreWeights(p, shared_ + Places::kProbabilities);
    }
    __syncwarp();
    Tile::AddWeighted(shared_ + Places::kScoreGrads, shared_ + Places::kOtherFirst, sizes_.head_dim,
                      first_sums_);
    if constexpr (kSide == Side::kKeys) {
      Tile::AddWeighted(shared_ + Places::kProbabilities, shared_ + Places::kOtherSecond,
                        sizes_.head_dim, second_sums_);
    }
  }

  template <typename To>
  __device__ __forceinline__ HeadRows<To> OwnRows(To* data) const {
    return kSide == Side::kKeys
               ? KeyHead(data, params_.dkv_stride, blockIdx.z, blockIdx.y, sizes_)
               : QueryHead(data, params_.dq_stride, blockIdx.z, blockIdx.y, sizes_);
  }

  // Stored, or added to what is there.
  __device__ __forceinline__ void StoreSums(const typename Tile::Sums& sums, float factor, T* to,
                                            float* added_to) const {
    const int64_t num_rows = kSide == Side::kKeys ? sizes_.num_keys : sizes_.sequence;
    if (added_to != nullptr) {
      Tile::AddSums(sums, factor, OwnRows(added_to), first_, num_rows, sizes_);
    } else {
      const float factors[kGroupRows] = {factor, factor};
      Tile::StoreSums(sums, factors, OwnRows(to), first_, num_rows, sizes_);
    }
  }

  const BackwardParams<T>& params_;
  const AttentionSizes& sizes_;
  const int64_t first_;
  float* const shared_;
  int64_t kv_head_;
  typename Tile::Sums first_sums_ = {};   // of score gradients times q or k
  typename Tile::Sums second_sums_ = {};  // of probabilities times dout
};

template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    PlainQueryGradKernel(BackwardParams<T> params) {
  // Blocks with many keys first.
  const int64_t first = (int64_t{gridDim.x} - 1 - blockIdx.x) * Tile::kRows;
  GradientBlock<T, Tile, Side::kQueries> block(params, first, DynamicShared<float>());
  const int64_t num_keys = params.sizes.EndOfKeys(first + Tile::kRows);
  int64_t key = params.sizes.FirstTileOfKeys(blockIdx.z, first, Tile::kRows);
  for (; key < num_keys; key += Tile::kRows) block.AddKeys(key);
  block.StoreGradients();
}

template <typename T, typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) PlainKeyGradKernel(BackwardParams<T> params) {
  const int64_t first = int64_t{blockIdx.x} * Tile::kRows;
  GradientBlock<T, Tile, Side::kKeys> block(params, first, DynamicShared<float>());
  const int64_t first_head = int64_t{blockIdx.y} * params.sizes.group_size;
  const int64_t end = params.sizes.EndOfQueries(blockIdx.z, first + Tile::kRows);
  for (int64_t head = first_head; head < first_head + params.sizes.group_size; ++head) {
    int64_t query = params.sizes.FirstQueryOf(first);
    for (; query < end; query += Tile::kRows) block.AddQueries(head, query);
  }
  block.StoreGradients();
}

}  // namespace

void PlainAttentionBackward(const LaunchContext& context, const AttentionBackwardArgs& args,
                            const float* delta) {
  WithFloatType(args.q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithPlainTile(args.head_dim, [&](auto tile) {
      using Tile = decltype(tile);
      const auto params = ParamsOf<T>(args, delta);
      LaunchShape shape{
          .grid = dim3(static_cast<unsigned>(base::CeilDiv(args.key_sequence, Tile::kRows)),
                       static_cast<unsigned>(args.num_kv_heads), static_cast<unsigned>(args.batch)),
          .block = dim3(Tile::kThreads),
          .shared_bytes = Layout<Tile>::kFloats * sizeof(float)};
      Launch("AttentionBackward", PlainKeyGradKernel<T, Tile>, shape, context.stream, params);
      shape.grid.x = static_cast<unsigned>(base::CeilDiv(args.sequence, Tile::kRows));
      shape.grid.y = static_cast<unsigned>(args.num_heads);
      Launch("AttentionBackward", PlainQueryGradKernel<T, Tile>, shape, context.stream, params);
    });
  });
}

}  // namespace tessera::kernels::cuda
