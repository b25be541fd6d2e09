// Attention: the row sums that the backward pass needs first, and the choice of a path.
#include "cost_model/base/error.h"
#include "cost_model/base/math.h"
#include "kernels/cuda/attention_delta.cuh"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/launch.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kRowLanes = 8;
constexpr int kThreads = 256;

// delta[batch, head, query of query_rows] = sum of dout * out over the row of the head; kRowLanes
// lanes a row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    DeltaKernel(BackwardParams<T> params, int64_t num_rows, float* delta) {
  const int64_t index = int64_t{blockIdx.x} * (kThreads / kRowLanes) + threadIdx.x / kRowLanes;
  const AttentionSizes& sizes = params.sizes;
  const bool is_row = index < num_rows;
  const int64_t token = is_row ? index / sizes.num_heads : 0;
  const int64_t head = is_row ? index - token * sizes.num_heads : 0;
  const int64_t batch = token / sizes.sequence;
  const int64_t query = token - batch * sizes.sequence;
  const int64_t row = batch * sizes.query_rows + query;
  const int64_t at = row * params.out_stride + head * sizes.head_dim;
  const float sum =
      DotOfRows<kRowLanes>(params.dout + at, params.out + at, sizes.head_dim, sizes.has_quads);
  if (is_row && threadIdx.x % kRowLanes == 0) delta[sizes.StatsRow(batch, head) + query] = sum;
}

// The row sums in scratch, or none where it is too short: the kernels then form them themselves,
// which is slower, as each is formed once for every block of keys.
const float* MakeDelta(const LaunchContext& context, const AttentionBackwardArgs& args) {
  const int64_t num_rows = args.batch * args.sequence * args.num_heads;
  const int64_t num_deltas = args.batch * args.query_rows * args.num_heads;
  if (num_deltas * static_cast<int64_t>(sizeof(float)) > context.scratch_bytes) return nullptr;
  auto* const delta = static_cast<float*>(context.scratch);
  WithFloatType(args.q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const int64_t num_blocks = base::CeilDiv(num_rows, kThreads / kRowLanes);
    const LaunchShape shape{dim3(static_cast<unsigned>(num_blocks)), dim3(kThreads)};
    Launch("AttentionBackward", DeltaKernel<T>, shape, context.stream, ParamsOf<T>(args, nullptr),
           num_rows, delta);
  });
  return delta;
}

void CheckHeadDim(int64_t head_dim) {
  if (head_dim <= kMaxPlainHeadDim) return;
  throw base::ConfigError(base::Concat("attention on a GPU takes heads of up to ", kMaxPlainHeadDim,
                                       " elements, not of ", head_dim));
}

}  // namespace

void AttentionForward(const LaunchContext& context, const AttentionForwardArgs& args) {
  CheckHeadDim(args.head_dim);
  if (TensorCoresTake(args)) return TensorAttentionForward(context, args);
  PlainAttentionForward(context, args);
}

void AttentionBackward(const LaunchContext& context, const AttentionBackwardArgs& args) {
  CheckHeadDim(args.head_dim);
  const float* const delta = MakeDelta(context, args);
  if (TensorCoresTake(args)) return TensorAttentionBackward(context, args, delta);
  PlainAttentionBackward(context, args, delta);
}

}  // namespace tessera::kernels::cuda
