#include "cost_model/base/math.h"
#include "kernels/cuda/attention_delta.cuh"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_tensor_gradients.cuh"
#include "kernels/cuda/launch.h"

namespace tessera::kernels::cuda {
namespace {

// Statistics of a block's queries on their way to shared memory: log-sum-exps, times log2(e), then
// deltas. Infinity and 0 where no query is, so that its probabilities are 0.
template <typename T, int kQueries>
class StatisticsInFlight {
 public:
  __device__ __forceinline__ void Fetch(const BackwardParams<T>& params, int64_t head,
                                        int64_t first) {
    const int64_t row = params.sizes.StatsRow(blockIdx.z, head) + first;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kTensorThreads;
      if (at < kQueries) {
        const bool exists = first + at < params.sizes.sequence;
        values_[i] = exists ? params.log_sum_exp[row + at] * kLog2E : INFINITY;
      } else if (at < 2 * kQueries && params.delta != nullptr) {
        const int query = at - kQueries;
        values_[i] = first + query < params.sizes.sequence ? params.delta[row + query] : 0.0F;
      }
    }
  }

  // Forms the deltas where no kernel did.
  __device__ __forceinline__ void Put(const BackwardParams<T>& params, int64_t head, int64_t first,
                                      float* statistics) const {
    const int count = params.delta != nullptr ? 2 * kQueries : kQueries;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kTensorThreads;
      if (at < count) statistics[at] = values_[i];
    }
    if (params.delta == nullptr) {
      LoadDelta<8>(params, head, first, kQueries, statistics + kQueries);
    }
  }

 private:
  static constexpr int kCount = (2 * kQueries + kTensorThreads - 1) / kTensorThreads;
  float values_[kCount] = {};
};

// The next two tiles of the other side, fetched while the block computes on the last: in its second
// half, when fewer registers are taken.
template <typename Tiles>
class RowsInFlight {
 public:
  using T = typename Tiles::T;

  __device__ __forceinline__ void Fetch(const HeadRows<const T>& first_rows,
                                        const HeadRows<const T>& second_rows, int64_t first,
                                        int64_t num_rows, int head_dim) {
    first_.Fetch(first_rows, first, num_rows, head_dim);
    second_.Fetch(second_rows, first, num_rows, head_dim);
  }
  __device__ __forceinline__ void Put(char* shared) const {
    first_.Put(reinterpret_cast<T*>(shared + Tiles::kOtherFirst));
    second_.Put(reinterpret_cast<T*>(shared + Tiles::kOtherSecond));
  }

 private:
  TileInFlight<T, Tiles::kOtherRows, Tiles::kWidth> first_, second_;
};

// The block's own rows to shared memory.
template <typename Tiles>
__device__ __forceinline__ void LoadOwnRows(const HeadRows<const typename Tiles::T>& first_rows,
                                            const HeadRows<const typename Tiles::T>& second_rows,
                                            int64_t first, int64_t num_rows, int head_dim,
                                            char* shared) {
  using T = typename Tiles::T;
  TileInFlight<T, Tiles::kRows, Tiles::kWidth> rows;
  rows.Fetch(first_rows, first, num_rows, head_dim);
  rows.Put(reinterpret_cast<T*>(shared + Tiles::kOwnFirst));
  rows.Fetch(second_rows, first, num_rows, head_dim);
  rows.Put(reinterpret_cast<T*>(shared + Tiles::kOwnSecond));
}

// A block of queries meets the keys that its last query sees.
template <typename Tiles>
__global__ void __launch_bounds__(kTensorThreads, Tiles::kBlocksAtOnce)
    TensorQueryGradKernel(BackwardParams<typename Tiles::T> params) {
  using T = typename Tiles::T;
  const AttentionSizes& sizes = params.sizes;
  char* const shared = DynamicShared<char>();
  const int64_t head = blockIdx.y;
  const int64_t kv_head = head / sizes.group_size;
  const auto k = KeyHead(params.k, params.kv_stride, blockIdx.z, kv_head, sizes);
  const auto v = KeyHead(params.v, params.kv_stride, blockIdx.z, kv_head, sizes);
  // Blocks with many keys first.
  const int64_t first = (int64_t{gridDim.x} - 1 - blockIdx.x) * Tiles::kRows;
  const int64_t num_keys = sizes.EndOfKeys(first + Tiles::kRows);

  WarpGradients<Tiles> gradients(shared, sizes, params.dropout, first);
  LoadOwnRows<Tiles>(QueryHead(params.q, params.q_stride, blockIdx.z, head, sizes),
                     QueryHead(params.dout, params.out_stride, blockIdx.z, head, sizes), first,
                     sizes.sequence, sizes.head_dim, shared);
  StatisticsInFlight<T, Tiles::kQueries> statistics;
  statistics.Fetch(params, head, first);
  statistics.Put(params, head, first, reinterpret_cast<float*>(shared + Tiles::kStatistics));
  RowsInFlight<Tiles> rows;
  rows.Fetch(k, v, 0, num_keys, sizes.head_dim);
  for (int64_t key = 0; key < num_keys; key += Tiles::kOtherRows) {
    __syncthreads();  // the last tiles are read
    rows.Put(shared);
    __syncthreads();
    const bool meets = gradients.Meets(key);
    if (meets) gradients.MakeWeights(head, key);
    rows.Fetch(k, v, key + Tiles::kOtherRows, num_keys, sizes.head_dim);
    if (meets) gradients.AddWeighted();
  }
  if (params.dq_sums != nullptr) {
    gradients.Add(QueryHead(params.dq_sums, params.dq_stride, blockIdx.z, head, sizes), {});
  } else {
    gradients.Store(QueryHead(params.dq, params.dq_stride, blockIdx.z, head, sizes), {});
  }
}

// A block of keys meets the queries that see its first key, of every head of its group.
template <typename Tiles>
__global__ void __launch_bounds__(kTensorThreads, Tiles::kBlocksAtOnce)
    TensorKeyGradKernel(BackwardParams<typename Tiles::T> params) {
  using T = typename Tiles::T;
  const AttentionSizes& sizes = params.sizes;
  char* const shared = DynamicShared<char>();
  auto* const statistics_tile = reinterpret_cast<float*>(shared + Tiles::kStatistics);
  const int64_t kv_head = blockIdx.y;
  const int64_t first = int64_t{blockIdx.x} * Tiles::kRows;
  const int64_t first_head = kv_head * sizes.group_size;
  const int64_t first_query = sizes.FirstQueryOf(first);
  const int64_t num_tiles =
      (sizes.sequence - first_query + Tiles::kOtherRows - 1) / Tiles::kOtherRows;
  const int64_t num_steps = num_tiles * sizes.group_size;

  WarpGradients<Tiles> gradients(shared, sizes, params.dropout, first);
  LoadOwnRows<Tiles>(KeyHead(params.k, params.kv_stride, blockIdx.z, kv_head, sizes),
                     KeyHead(params.v, params.kv_stride, blockIdx.z, kv_head, sizes), first,
                     sizes.num_keys, sizes.head_dim, shared);
  RowsInFlight<Tiles> rows;
  StatisticsInFlight<T, Tiles::kQueries> statistics;
  const auto fetch = [&](int64_t head, int64_t query) {
    rows.Fetch(QueryHead(params.q, params.q_stride, blockIdx.z, head, sizes),
               QueryHead(params.dout, params.out_stride, blockIdx.z, head, sizes), query,
               sizes.sequence, sizes.head_dim);
    statistics.Fetch(params, head, query);
  };
  int64_t head = first_head;
  int64_t query = first_query;
  fetch(head, query);
  for (int64_t step = 0; step < num_steps; ++step) {
    __syncthreads();  // the last tiles are read
    rows.Put(shared);
    statistics.Put(params, head, query, statistics_tile);
    __syncthreads();
    const bool meets = gradients.Meets(query);
    if (meets) gradients.MakeWeights(head, query);
    query += Tiles::kOtherRows;
    if (query >= sizes.sequence) {
      query = first_query;
      ++head;
    }
    if (step + 1 < num_steps) fetch(head, query);
    if (meets) gradients.AddWeighted();
  }
  if (params.dk_sums != nullptr) {
    gradients.Add(KeyHead(params.dk_sums, params.dkv_stride, blockIdx.z, kv_head, sizes),
                  KeyHead(params.dv_sums, params.dkv_stride, blockIdx.z, kv_head, sizes));
  } else {
    gradients.Store(KeyHead(params.dk, params.dkv_stride, blockIdx.z, kv_head, sizes),
                    KeyHead(params.dv, params.dkv_stride, blockIdx.z, kv_head, sizes));
  }
}

template <typename T, int kWidth>
void LaunchGradients(const LaunchContext& context, const AttentionBackwardArgs& args,
                     const float* delta) {
  using KeyTiles = GradientTiles<T, kWidth, Side::kKeys>;
  using QueryTiles = GradientTiles<T, kWidth, Side::kQueries>;
  const auto params = ParamsOf<T>(args, delta);
  const auto grid = [&](int64_t num_rows, int64_t rows_at_once, int64_t heads) {
    return dim3(static_cast<unsigned>(base::CeilDiv(num_rows, rows_at_once)),
                static_cast<unsigned>(heads), static_cast<unsigned>(args.batch));
  };
  Launch("AttentionBackward", TensorKeyGradKernel<KeyTiles>,
         {grid(args.key_sequence, KeyTiles::kRows, args.num_kv_heads), dim3(kTensorThreads),
          KeyTiles::kBytes},
         context.stream, params);
  Launch("AttentionBackward", TensorQueryGradKernel<QueryTiles>,
         {grid(args.sequence, QueryTiles::kRows, args.num_heads), dim3(kTensorThreads),
          QueryTiles::kBytes},
         context.stream, params);
}

}  // namespace

bool TensorCoresTake(const AttentionBackwardArgs& args) {
  // These kernels have no registers left to look where a document begins.
  return !args.documents && args.q.dtype != base::DType::kFloat32 &&
         args.stats_kind == base::AttentionStats::kLogSumExp && args.head_dim <= 128 &&
         CanVectorize(kChunk,
                      {args.dout.data, args.out.data, args.q.data, args.k.data, args.v.data,
                       args.dq.data, args.dk.data, args.dv.data},
                      {args.head_dim, args.qkv_stride, args.kv_stride, args.out_stride,
                       args.dqkv_stride, args.dkv_stride});
}

void TensorAttentionBackward(const LaunchContext& context, const AttentionBackwardArgs& args,
                             const float* delta) {
  WithTensorType(args.q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithTensorWidth(args.head_dim, [&](auto width) {
      LaunchGradients<T, decltype(width)::value>(context, args, delta);
    });
  });
}

}  // namespace tessera::kernels::cuda
