// The router of a mixture of experts, a warp to a row: choice, probabilities, their gradient,
// losses of its own.
#include <algorithm>

#include "cost_model/base/math.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/shared_memory.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/expert_order.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kRowsPerBlock = 8;
constexpr int kRouterThreads = kRowsPerBlock * kWarpSize;
constexpr int kCountThreads = 1024;
// Fixed, so that the order of additions is the same on every GPU.
constexpr int kLossBlocks = 1024;

struct MaxKeyOp {
  __device__ __forceinline__ uint64_t operator()(uint64_t a, uint64_t b) const {
    return a < b ? b : a;
  }
};

struct RouterForwardParams {
  const float* logits;  // probabilities may be the same
  float* probabilities;
  float* __restrict__ log_sum_exp;
  int32_t* chosen;
  float* __restrict__ weight;
  int64_t num_rows;
  int num_experts, num_chosen;
  bool normalize;
};

// The best key of the row below `last`.
__device__ __forceinline__ uint64_t NextKey(const float* logits, int num_experts, int lane,
                                            uint64_t last) {
  uint64_t best = 0;
  for (int expert = lane; expert < num_experts; expert += kWarpSize) {
    const uint64_t key = ExpertKey(logits[expert], expert);
    if (key < last && key > best) best = key;
  }
  return WarpReduce(best, MaxKeyOp());
}

__global__ void __launch_bounds__(kRouterThreads) RouterForwardKernel(const RouterForwardParams p) {
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.y;
  if (row >= p.num_rows) return;
  const float* const logits = p.logits + row * p.num_experts;
  int32_t* const chosen = p.chosen + row * p.num_chosen;
  // A lane writes and reads the choices lane, lane + 32 and so on.
  float max = 0;
  uint64_t key = kAboveAllExperts;
  for (int j = 0; j < p.num_chosen; ++j) {
    key = NextKey(logits, p.num_experts, lane, key);
    if (j == 0) max = logits[ExpertOfKey(key)];
    if (lane == j % kWarpSize) chosen[j] = ExpertOfKey(key);
  }
  float sum = 0;
  for (int expert = lane; expert < p.num_experts; expert += kWarpSize) {
    sum += expf(logits[expert] - max);
  }
  float chosen_sum = 0;
  for (int j = lane; j < p.num_chosen; j += kWarpSize) chosen_sum += expf(logits[chosen[j]] - max);
  sum = WarpReduce(sum, SumOp());
  chosen_sum = WarpReduce(chosen_sum, SumOp());
  for (int j = lane; j < p.num_chosen; j += kWarpSize) {
    p.weight[row * p.num_chosen + j] =
        expf(logits[chosen[j]] - max) / (p.normalize ? chosen_sum : sum);
  }
  if (lane == 0) p.log_sum_exp[row] = max + logf(sum);
  __syncwarp();  // all have read the logits
  float* const probabilities = p.probabilities + row * p.num_experts;
  for (int expert = lane; expert < p.num_experts; expert += kWarpSize) {
    probabilities[expert] = expf(logits[expert] - max) / sum;
  }
}

// A block to a sequence. first_row, sequence: as in ExpertCountArgs.
__global__ void __launch_bounds__(kCountThreads)
    ExpertCountKernel(const int32_t* __restrict__ chosen, float* __restrict__ counts,
                      int64_t num_rows, int num_experts, int num_chosen, int64_t first_row,
                      int64_t sequence) {
  auto* const sums = DynamicShared<int>();
  for (int expert = threadIdx.x; expert < num_experts; expert += kCountThreads) sums[expert] = 0;
  __syncthreads();
  const int64_t begin = max(int64_t{0}, blockIdx.x * sequence - first_row);
  const int64_t end = min(num_rows, (blockIdx.x + 1) * sequence - first_row);
  for (int64_t i = begin * num_chosen + threadIdx.x; i < end * num_chosen; i += kCountThreads) {
    atomicAdd(&sums[chosen[i]], 1);
  }
  __syncthreads();
  for (int expert = threadIdx.x; expert < num_experts; expert += kCountThreads) {
    counts[int64_t{blockIdx.x} * num_experts + expert] = static_cast<float>(sums[expert]);
  }
}

template <typename T>
struct RouterBackwardParams {
  const float* __restrict__ probabilities;
  const float* __restrict__ log_sum_exp;
  const int32_t* __restrict__ chosen;
  const float* __restrict__ weight;
  const float* __restrict__ dweight;
  const float* __restrict__ counts;
  T* __restrict__ dlogits;
  double2* __restrict__ losses;  // of each block: balance, z
  int64_t num_rows;
  int num_experts, num_chosen;
  int64_t first_row, sequence;
  bool normalize;
  float balance_slope, z_coefficient, grad_scale;
};

// One row, as a warp sees it.
template <typename T>
struct RouterRow {
  __device__ __forceinline__ RouterRow(const RouterBackwardParams<T>& params, int64_t row)
      : p(params),
        probabilities(p.probabilities + row * p.num_experts),
        chosen(p.chosen + row * p.num_chosen),
        dweight(p.dweight + row * p.num_chosen),
        count(p.counts == nullptr ? nullptr
                                  : p.counts + (p.first_row + row) / p.sequence * p.num_experts) {
    if (!p.normalize) return;
    // Of w_j = p_j / S, S the sum over the chosen: dp_j = (dw_j - sum over i of dw_i w_i) / S.
    float sums[2] = {};
    for (int j = Lane(); j < p.num_chosen; j += kWarpSize) {
      sums[0] += probabilities[chosen[j]];
      sums[1] += dweight[j] * p.weight[row * p.num_chosen + j];
    }
    inverse_sum = 1.0F / WarpReduce(sums[0], SumOp());
    mean = WarpReduce(sums[1], SumOp());
  }

  static __device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
  __device__ __forceinline__ float Count(int expert) const {
    return count == nullptr ? 0.0F : count[expert];
  }
  // What comes through the weight of a choice.
  __device__ __forceinline__ float WeightGradient(int choice) const {
    return (dweight[choice] - mean) * inverse_sum;
  }

  const RouterBackwardParams<T>& p;
  const float* probabilities;
  const int32_t* chosen;
  const float* dweight;
  const float* count;
  float inverse_sum = 1, mean = 0;
};

// dl_e = p_e (dp_e - sum over f of p_f dp_f + slope of the z loss). Returns the balance loss.
template <typename T>
__device__ __forceinline__ float WriteGradient(const RouterRow<T>& row, int64_t index) {
  const auto& p = row.p;
  float balance = 0;
  for (int expert = row.Lane(); expert < p.num_experts; expert += kWarpSize) {
    balance += row.Count(expert) * row.probabilities[expert];
  }
  balance = p.balance_slope * WarpReduce(balance, SumOp());
  float through_weights = 0;
  for (int j = row.Lane(); j < p.num_chosen; j += kWarpSize) {
    through_weights += row.probabilities[row.chosen[j]] * row.WeightGradient(j);
  }
  through_weights = WarpReduce(through_weights, SumOp());
  const float z_slope = p.grad_scale * p.z_coefficient * 2 * p.log_sum_exp[index];
  const float shift = z_slope - (through_weights + p.grad_scale * balance);
  for (int expert = row.Lane(); expert < p.num_experts; expert += kWarpSize) {
    float gradient = p.grad_scale * p.balance_slope * row.Count(expert);
    for (int j = 0; j < p.num_chosen; ++j) {
      if (row.chosen[j] == expert) gradient += row.WeightGradient(j);
    }
    p.dlogits[index * p.num_experts + expert] =
        FromFloat<T>(row.probabilities[expert] * (gradient + shift));
  }
  return balance;
}

// Sums over the block, in all threads.
__device__ __forceinline__ double2 AddLosses(double2 losses) {
  __shared__ double shared[GroupReducer<double, 2>::kSharedValues];
  double values[2] = {losses.x, losses.y};
  GroupReducer<double, 2>(shared).Reduce(values, SumOp(), 0.0);
  return {values[0], values[1]};
}

template <typename T>
__global__ void __launch_bounds__(kRouterThreads)
    RouterBackwardKernel(const RouterBackwardParams<T> p) {
  const int64_t step = int64_t{gridDim.x} * kRowsPerBlock;
  double balance = 0;
  double z = 0;
  for (int64_t index = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarpSize;
       index < p.num_rows; index += step) {
    balance += WriteGradient(RouterRow<T>(p, index), index);
    const double log_sum_exp = p.log_sum_exp[index];
    z += p.z_coefficient * log_sum_exp * log_sum_exp;
  }
  const bool is_first_lane = threadIdx.x % kWarpSize == 0;  // all lanes have the same
  const double2 sums = AddLosses(is_first_lane ? make_double2(balance, z) : double2{});
  if (threadIdx.x == 0) p.losses[blockIdx.x] = sums;
}

// One block, so that the order of additions is fixed.
__global__ void __launch_bounds__(kLossBlocks)
    AddRouterLossesKernel(const double2* __restrict__ losses, int num_losses, double* balance_sum,
                          double* z_sum) {
  const int thread = static_cast<int>(threadIdx.x);
  const double2 sums = AddLosses(thread < num_losses ? losses[thread] : double2{});
  if (thread != 0) return;
  if (balance_sum != nullptr) *balance_sum += sums.x;
  if (z_sum != nullptr) *z_sum += sums.y;
}

}  // namespace

void RouterForward(const LaunchContext& context, const RouterForwardArgs& args) {
  if (args.num_rows == 0) return;
  const RouterForwardParams params{.logits = args.logits.As<float>(),
                                   .probabilities = args.probabilities.As<float>(),
                                   .log_sum_exp = args.log_sum_exp.As<float>(),
                                   .chosen = args.chosen.As<int32_t>(),
                                   .weight = args.weight.As<float>(),
                                   .num_rows = args.num_rows,
                                   .num_experts = static_cast<int>(args.num_experts),
                                   .num_chosen = static_cast<int>(args.num_chosen),
                                   .normalize = args.normalize};
  const LaunchShape shape{
      dim3(static_cast<unsigned>(base::CeilDiv(args.num_rows, int64_t{kRowsPerBlock}))),
      dim3(kWarpSize, kRowsPerBlock)};
  Launch("router", RouterForwardKernel, shape, context.stream, params);
}

void ExpertCount(const LaunchContext& context, const ExpertCountArgs& args) {
  const LaunchShape shape{dim3(static_cast<unsigned>(args.num_sequences)), dim3(kCountThreads),
                          args.num_experts * static_cast<int64_t>(sizeof(int))};
  Launch("counts of experts", ExpertCountKernel, shape, context.stream, args.chosen.As<int32_t>(),
         args.counts.As<float>(), args.num_rows, static_cast<int>(args.num_experts),
         static_cast<int>(args.num_chosen), args.first_row, args.sequence);
}

void RouterBackward(const LaunchContext& context, const RouterBackwardArgs& args) {
  if (args.num_rows == 0) return;
  const auto num_blocks = static_cast<int>(
      std::min(base::CeilDiv(args.num_rows, int64_t{kRowsPerBlock}), int64_t{kLossBlocks}));
  auto* const losses = static_cast<double2*>(context.scratch);
  WithFloatType(args.dlogits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const RouterBackwardParams<T> params{
        .probabilities = args.probabilities.As<float>(),
        .log_sum_exp = args.log_sum_exp.As<float>(),
        .chosen = args.chosen.As<int32_t>(),
        .weight = args.weight.As<float>(),
        .dweight = args.dweight.As<float>(),
        .counts = args.counts.As<float>(),
        .dlogits = args.dlogits.As<T>(),
        .losses = losses,
        .num_rows = args.num_rows,
        .num_experts = static_cast<int>(args.num_experts),
        .num_chosen = static_cast<int>(args.num_chosen),
        .first_row = args.first_row,
        .sequence = args.sequence,
        .normalize = args.normalize,
        .balance_slope = BalanceSlope(args),
        .z_coefficient = args.z_loss_sum == nullptr ? 0.0F : args.z_coefficient,
        .grad_scale = args.grad_scale};
    Launch("router backward", RouterBackwardKernel<T>,
           {dim3(static_cast<unsigned>(num_blocks)), dim3(kRouterThreads)}, context.stream, params);
  });
  Launch("sums of the router's losses", AddRouterLossesKernel, {dim3(1), dim3(kLossBlocks)},
         context.stream, losses, num_blocks, args.balance_loss_sum, args.z_loss_sum);
}

}  // namespace tessera::kernels::cuda
