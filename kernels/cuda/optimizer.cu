// The norm of the gradient and AdamW, over flat arrays.
#include <cmath>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

// Fixed, so that the order of additions is the same on every GPU.
constexpr int kSumBlocks = 1024;
constexpr int kSumThreads = 256;

// Where the array does not begin at a multiple of 16 bytes the loads are smaller, the order of
// additions the same.
template <typename T, bool kIsAligned>
__global__ void __launch_bounds__(kSumThreads)
    SumOfSquaresKernel(const T* __restrict__ x, int64_t n, double* __restrict__ partial) {
  constexpr int kSize = kVectorSize<T>;
  const int64_t num_threads = static_cast<int64_t>(gridDim.x) * kSumThreads;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kSumThreads + threadIdx.x;
  const int64_t num_packs = n / kSize;
  double sum = 0;
#pragma unroll 4
  for (int64_t pack = thread; pack < num_packs; pack += num_threads) {
    float values[kSize];
    if constexpr (kIsAligned) {
      Load<kSize>(x + pack * kSize, values);
    } else {
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = ToFloat(x[pack * kSize + j]);
    }
#pragma unroll
    for (const float value : values) sum += static_cast<double>(value) * value;
  }
  const int64_t last = num_packs * kSize + thread;
  if (last < n) {
    const float value = ToFloat(x[last]);
    sum += static_cast<double>(value) * value;
  }
  sum = BlockReduce(sum, SumOp(), 0.0);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kSumBlocks)
    AddPartialSquaresKernel(const double* __restrict__ partial, int num_partials,
                            double* __restrict__ sum) {
  const int thread = static_cast<int>(threadIdx.x);
  const double total = BlockReduce(thread < num_partials ? partial[thread] : 0.0, SumOp(), 0.0);
  if (thread == 0) *sum += total;
}

// The constants of one step, worked out in double.
struct AdamWStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float keep;             // 1 - lr * weight_decay
  float step_size;        // lr / (1 - beta1^step)
  float root_correction;  // 1 / sqrt(1 - beta2^step)
  float epsilon, grad_scale;
};

AdamWStep MakeStep(const AdamWArgs& args) {
  const auto step = static_cast<double>(args.step);
  const double beta1 = args.beta1;
  const double beta2 = args.beta2;
  const double lr = args.lr;
  return {args.beta1,
          static_cast<float>(1.0 - beta1),
          args.beta2,
          static_cast<float>(1.0 - beta2),
          static_cast<float>(1.0 - lr * args.weight_decay),
          static_cast<float>(lr / (1.0 - std::pow(beta1, step))),
          static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, step))),
          args.epsilon,
          args.grad_scale};
}

template <typename T, bool kHasMaster>
struct AdamWOp {
  T* __restrict__ param;
  float* __restrict__ master;
  const float* __restrict__ grad;
  float* __restrict__ first_moment;
  float* __restrict__ second_moment;
  AdamWStep step;

  template <int kSize>
  __device__ void Run(int64_t i) const {
    float p[kSize], g[kSize], m[kSize], v[kSize];
    if constexpr (kHasMaster) {
      Load<kSize>(master + i, p);
    } else {
      Load<kSize>(param + i, p);
    }
    Load<kSize>(grad + i, g);
    Load<kSize>(first_moment + i, m);
    Load<kSize>(second_moment + i, v);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      g[j] *= step.grad_scale;
      m[j] = step.beta1 * m[j] + step.one_minus_beta1 * g[j];
      v[j] = step.beta2 * v[j] + step.one_minus_beta2 * g[j] * g[j];
      const float denominator = sqrtf(v[j]) * step.root_correction + step.epsilon;
      p[j] = p[j] * step.keep - step.step_size * (m[j] / denominator);
    }
    Store<kSize>(m, first_moment + i);
    Store<kSize>(v, second_moment + i);
    if constexpr (kHasMaster) Store<kSize>(p, master + i);
    Store<kSize>(p, param + i);
  }
};

template <typename T, bool kHasMaster>
void LaunchAdamW(const LaunchContext& context, const AdamWArgs& args) {
  // As many elements as fit an access of the state: neighbouring threads touch neighbours.
  constexpr int kSize = kVectorSize<float>;
  const bool vectorize = CanVectorize(
      1, {args.param.data, args.master.data, args.grad.data, args.m.data, args.v.data}, {});
  LaunchFlat<kSize>(
      context, "adamw", args.n, vectorize,
      AdamWOp<T, kHasMaster>{args.param.As<T>(), args.master.As<float>(), args.grad.As<float>(),
                             args.m.As<float>(), args.v.As<float>(), MakeStep(args)});
}

}  // namespace

void SumOfSquares(const LaunchContext& context, const SumOfSquaresArgs& args) {
  if (args.n == 0) return;
  auto* const partial = static_cast<double*>(context.scratch);
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    const auto num_blocks = static_cast<int>(
        std::min(base::CeilDiv(args.n, int64_t{kSumThreads} * kSize), int64_t{kSumBlocks}));
    const LaunchShape shape{dim3(static_cast<unsigned>(num_blocks)), dim3(kSumThreads)};
    if (CanVectorize(1, {args.x.data}, {})) {
      Launch("sum of squares", SumOfSquaresKernel<T, true>, shape, context.stream, args.x.As<T>(),
             args.n, partial);
    } else {
      Launch("sum of squares", SumOfSquaresKernel<T, false>, shape, context.stream, args.x.As<T>(),
             args.n, partial);
    }
    Launch("sum of squares", AddPartialSquaresKernel, {dim3(1), dim3(kSumBlocks)}, context.stream,
           partial, num_blocks, args.sum);
  });
}

void AdamW(const LaunchContext& context, const AdamWArgs& args) {
  WithFloatType(args.param.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (args.master) {
      LaunchAdamW<T, true>(context, args);
    } else {
      LaunchAdamW<T, false>(context, args);
    }
  });
}

}  // namespace tessera::kernels::cuda
