// Vocabulary-parallel softmax cross-entropy: three passes over the logits, a block to a row. The
// padding behind the valid columns is never read.
#include <algorithm>

#include "cost_model/base/math.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {
namespace {

constexpr int kMaxThreads = 512;  // of a row
constexpr int kLossThreads = 1024;

// Calls body(column, values) with the elements of row[0, n), by turns of the block's threads: 16
// bytes at once, and one by one ahead of the first multiple of 16 bytes and behind the last. Rows
// may begin anywhere, as a vocabulary may have any size.
template <typename T, typename Body>
__device__ __forceinline__ void ForRow(const T* row, int64_t n, const Body& body) {
  constexpr int kSize = kVectorSize<T>;
  const auto misalignment =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) % kVectorBytes / sizeof(T));
  const int64_t head = min(n, (kSize - misalignment) % kSize);
  const int64_t num_packs = (n - head) / kSize;
  const int64_t tail = head + num_packs * kSize;
  const auto thread = static_cast<int64_t>(threadIdx.x);
  float single[1];
  if (thread < head) {
    Load<1>(row + thread, single);
    body(thread, single);
  }
#pragma unroll 2
  for (int64_t pack = thread; pack < num_packs; pack += blockDim.x) {
    float values[kSize];
    Load<kSize>(row + head + pack * kSize, values);
    body(head + pack * kSize, values);
  }
  if (tail + thread < n) {
    Load<1>(row + tail + thread, single);
    body(tail + thread, single);
  }
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    CrossEntropyMaxKernel(const T* __restrict__ logits, float* __restrict__ max_of_row,
                          int64_t num_columns, int64_t num_valid) {
  const int64_t row = blockIdx.x;
  float largest = -INFINITY;
  ForRow(logits + row * num_columns, num_valid, [&](int64_t, const auto& values) {
#pragma unroll
    for (const float value : values) largest = fmaxf(largest, value);
  });
  largest = BlockReduce(largest, MaxOp(), -INFINITY);
  if (threadIdx.x == 0) max_of_row[row] = largest;
}

// Column of a label on this rank, or -1 where another rank holds it.
__device__ __forceinline__ int64_t LocalColumn(int32_t label, int64_t vocab_begin,
                                               int64_t num_valid) {
  const int64_t column = label - vocab_begin;
  return column >= 0 && column < num_valid ? column : -1;
}

template <typename T>
struct SumExpParams {
  const T* __restrict__ logits;
  const int32_t* __restrict__ labels;
  const float* __restrict__ max;
  float* __restrict__ sum_exp;
  float* __restrict__ target_logit;
  int64_t num_columns, num_valid, vocab_begin;
};

template <typename T>
__global__ void __launch_bounds__(kMaxThreads) CrossEntropySumExpKernel(const SumExpParams<T> p) {
  const int64_t row = blockIdx.x;
  const T* const logits = p.logits + row * p.num_columns;
  const float max = p.max[row];
  float sum = 0;
  ForRow(logits, p.num_valid, [&](int64_t, const auto& values) {
#pragma unroll
    for (const float value : values) sum += __expf(value - max);
  });
  sum = BlockReduce(sum, SumOp(), 0.0F);
  if (threadIdx.x != 0) return;
  const int64_t column = LocalColumn(p.labels[row], p.vocab_begin, p.num_valid);
  p.sum_exp[row] = sum;
  p.target_logit[row] = column >= 0 ? ToFloat(logits[column]) - max : 0.0F;
}

template <typename T>
struct GradParams {
  T* logits;
  const int32_t* __restrict__ labels;
  const float* __restrict__ max;
  const float* __restrict__ sum_exp;
  const float* __restrict__ target_logit;
  float* __restrict__ loss;
  int64_t num_columns, num_valid, vocab_begin;
  float grad_scale;
};

template <typename T>
__global__ void __launch_bounds__(kMaxThreads) CrossEntropyGradKernel(const GradParams<T> p) {
  const int64_t row = blockIdx.x;
  T* const logits = p.logits + row * p.num_columns;
  const float max = p.max[row];
  const bool counts = p.labels[row] >= 0;
  const float factor = counts ? p.grad_scale / p.sum_exp[row] : 0.0F;
  const int64_t label = LocalColumn(p.labels[row], p.vocab_begin, p.num_valid);
  ForRow(logits, p.num_valid, [&](int64_t column, auto& values) {
    constexpr int kSize = sizeof(values) / sizeof(float);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float target = column + j == label ? p.grad_scale : 0.0F;
      values[j] = __expf(values[j] - max) * factor - target;
    }
    Store<kSize>(values, logits + column);
  });
  for (int64_t column = p.num_valid + threadIdx.x; column < p.num_columns; column += blockDim.x) {
    logits[column] = FromFloat<T>(0.0F);
  }
  if (threadIdx.x == 0) {
    p.loss[row] = counts ? logf(p.sum_exp[row]) - p.target_logit[row] : 0.0F;
  }
}

// One block, so that the order of additions is fixed.
__global__ void __launch_bounds__(kLossThreads)
    LossSumKernel(const float* __restrict__ loss, int64_t num_rows, double* __restrict__ loss_sum) {
  double sum = 0;
  for (int64_t row = threadIdx.x; row < num_rows; row += kLossThreads) sum += loss[row];
  sum = BlockReduce(sum, SumOp(), 0.0);
  if (threadIdx.x == 0) *loss_sum += sum;
}

template <typename T>
LaunchShape BlockPerRow(int64_t num_rows, int64_t num_columns) {
  const int64_t num_packs = base::CeilDiv(num_columns, int64_t{kVectorSize<T>});
  const int64_t threads =
      std::min(base::RoundUp(num_packs, int64_t{kWarpSize}), int64_t{kMaxThreads});
  return {dim3(static_cast<unsigned>(num_rows)), dim3(static_cast<unsigned>(threads))};
}

}  // namespace

void CrossEntropyMax(const LaunchContext& context, const CrossEntropyMaxArgs& args) {
  WithFloatType(args.logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch("cross-entropy max", CrossEntropyMaxKernel<T>,
           BlockPerRow<T>(args.num_rows, args.num_columns), context.stream, args.logits.As<T>(),
           args.max.As<float>(), args.num_columns, args.num_valid);
  });
}

void CrossEntropySumExp(const LaunchContext& context, const CrossEntropySumExpArgs& args) {
  WithFloatType(args.logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const SumExpParams<T> params{args.logits.As<T>(),
                                 args.labels.As<int32_t>(),
                                 args.max.As<float>(),
                                 args.sum_exp.As<float>(),
                                 args.target_logit.As<float>(),
                                 args.num_columns,
                                 args.num_valid,
                                 args.vocab_begin};
    Launch("cross-entropy sum", CrossEntropySumExpKernel<T>,
           BlockPerRow<T>(args.num_rows, args.num_columns), context.stream, params);
  });
}

void CrossEntropyGrad(const LaunchContext& context, const CrossEntropyGradArgs& args) {
  auto* const loss = args.loss.As<float>();
  WithFloatType(args.logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const GradParams<T> params{args.logits.As<T>(),
                               args.labels.As<int32_t>(),
                               args.max.As<float>(),
                               args.sum_exp.As<float>(),
                               args.target_logit.As<float>(),
                               loss,
                               args.num_columns,
                               args.num_valid,
                               args.vocab_begin,
                               args.grad_scale};
    Launch("cross-entropy gradient", CrossEntropyGradKernel<T>,
           BlockPerRow<T>(args.num_rows, args.num_columns), context.stream, params);
  });
  Launch("sum of losses", LossSumKernel, {dim3(1), dim3(kLossThreads)}, context.stream, loss,
         args.num_rows, args.loss_sum);
}

}  // namespace tessera::kernels::cuda
