// SwiGLU, GELU weighted by rows, and the epilogues of a matrix product.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

__device__ __forceinline__ float WeightOf(const float* row_weight, int64_t row) {
  return row_weight == nullptr ? 1.0F : row_weight[row];
}

template <typename T>
struct SwiGluForwardOp {
  const T* __restrict__ gate_up;
  const float* __restrict__ row_weight;
  T* __restrict__ y;
  int64_t width;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    float gate[kSize], up[kSize];
    const int64_t at = row * 2 * width + column;
    Load<kSize>(gate_up + at, gate);
    Load<kSize>(gate_up + at + width, up);
#pragma unroll
    for (int j = 0; j < kSize; ++j) gate[j] *= Sigmoid(gate[j]).sigmoid * up[j];
    // Only now: a weight that waits for the sigmoids' divisions would spill registers.
    const float weight = WeightOf(row_weight, row);
#pragma unroll
    for (int j = 0; j < kSize; ++j) gate[j] *= weight;
    Store<kSize>(gate, y + row * width + column);
  }
};

// silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g). Returns the elements' part of the gradient of
// the row's weight.
template <typename T>
struct SwiGluBackwardOp {
  const T* __restrict__ dy;
  const T* gate_up;  // dgate_up may be the same
  const float* __restrict__ row_weight;
  T* dgate_up;
  int64_t width;

  template <int kSize>
  __device__ float Run(int64_t row, int64_t column) const {
    float gate[kSize], up[kSize], grad[kSize];
    const int64_t at = row * 2 * width + column;
    const float weight = WeightOf(row_weight, row);
    Load<kSize>(gate_up + at, gate);
    Load<kSize>(gate_up + at + width, up);
    Load<kSize>(dy + row * width + column, grad);
    float dweight = 0;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const auto [sigmoid, complement] = Sigmoid(gate[j]);
      const float silu = gate[j] * sigmoid;
      dweight += grad[j] * silu * up[j];
      grad[j] *= weight;
      gate[j] = grad[j] * up[j] * sigmoid * (1.0F + gate[j] * complement);
      up[j] = grad[j] * silu;
    }
    Store<kSize>(gate, dgate_up + at);
    Store<kSize>(up, dgate_up + at + width);
    return dweight;
  }
};

template <typename T>
struct WeightedGeluForwardOp {
  const T* x;  // y may be the same
  const float* __restrict__ row_weight;
  T* y;
  int64_t width;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    float values[kSize];
    Load<kSize>(x + row * width + column, values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] = Gelu(values[j]) * row_weight[row];
    Store<kSize>(values, y + row * width + column);
  }
};

// Returns the elements' part of the gradient of the row's weight.
template <typename T>
struct WeightedGeluBackwardOp {
  const T* dy;  // dx may be either input
  const T* x;
  const float* __restrict__ row_weight;
  T* dx;
  int64_t width;

  template <int kSize>
  __device__ float Run(int64_t row, int64_t column) const {
    const int64_t at = row * width + column;
    float grad[kSize], inputs[kSize];
    Load<kSize>(dy + at, grad);
    Load<kSize>(x + at, inputs);
    float dweight = 0;
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      dweight += grad[j] * Gelu(inputs[j]);
      grad[j] *= row_weight[row] * GeluGrad(inputs[j]);
    }
    Store<kSize>(grad, dx + at);
    return dweight;
  }
};

template <typename T, base::Epilogue kEpilogue, bool kHasBias>
struct EpilogueOp {
  T* __restrict__ c;
  const T* __restrict__ bias;
  T* __restrict__ aux;
  int64_t stride;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    const int64_t at = row * stride + column;
    float values[kSize];
    Load<kSize>(c + at, values);
    if constexpr (kEpilogue == base::Epilogue::kGeluGrad) {
      float inputs[kSize];
      Load<kSize>(aux + at, inputs);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] *= GeluGrad(inputs[j]);
    } else {
      if constexpr (kHasBias) AddBias<kSize>(column, values);
      if constexpr (kEpilogue == base::Epilogue::kBiasGelu) {
        Store<kSize>(values, aux + at);
#pragma unroll
        for (int j = 0; j < kSize; ++j) values[j] = Gelu(values[j]);
      }
    }
    Store<kSize>(values, c + at);
  }

  template <int kSize>
  __device__ void AddBias(int64_t column, float (&values)[kSize]) const {
    float terms[kSize];
    Load<kSize>(bias + column, terms);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] += terms[j];
  }
};

template <base::Epilogue kEpilogue, bool kHasBias>
void LaunchEpilogue(const LaunchContext& context, const MatMulArgs& args) {
  WithFloatType(args.c.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    const bool vectorize =
        CanVectorize(kSize, {args.c.data, args.bias.data, args.aux.data}, {args.ldc, args.n});
    LaunchRows<kSize>(context, "epilogue of a matrix product", args.m, args.n, vectorize,
                      EpilogueOp<T, kEpilogue, kHasBias>{args.c.As<T>(), args.bias.As<T>(),
                                                         args.aux.As<T>(), args.ldc});
  });
}

}  // namespace

void SwiGluForward(const LaunchContext& context, const SwiGluForwardArgs& args) {
  WithFloatType(args.gate_up.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    LaunchRows<kSize>(context, "swiglu", args.num_rows, args.width,
                      CanVectorize(kSize, {args.gate_up.data, args.y.data}, {args.width}),
                      SwiGluForwardOp<T>{args.gate_up.As<T>(), args.row_weight.As<float>(),
                                         args.y.As<T>(), args.width});
  });
}

void SwiGluBackward(const LaunchContext& context, const SwiGluBackwardArgs& args) {
  WithFloatType(args.gate_up.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    const bool vectorize =
        CanVectorize(kSize, {args.dy.data, args.gate_up.data, args.dgate_up.data}, {args.width});
    const SwiGluBackwardOp<T> op{args.dy.As<T>(), args.gate_up.As<T>(), args.row_weight.As<float>(),
                                 args.dgate_up.As<T>(), args.width};
    if (args.dweight) {
      LaunchRowSums<kSize>(context, "weighted swiglu backward", args.num_rows, args.width,
                           vectorize, args.dweight.As<float>(), op);
    } else {
      LaunchRows<kSize>(context, "swiglu backward", args.num_rows, args.width, vectorize, op);
    }
  });
}

void WeightedGeluForward(const LaunchContext& context, const WeightedGeluForwardArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    LaunchRows<kSize>(context, "weighted gelu", args.num_rows, args.width,
                      CanVectorize(kSize, {args.x.data, args.y.data}, {args.width}),
                      WeightedGeluForwardOp<T>{args.x.As<T>(), args.row_weight.As<float>(),
                                               args.y.As<T>(), args.width});
  });
}

void WeightedGeluBackward(const LaunchContext& context, const WeightedGeluBackwardArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    const bool vectorize =
        CanVectorize(kSize, {args.dy.data, args.x.data, args.dx.data}, {args.width});
    LaunchRowSums<kSize>(
        context, "weighted gelu backward", args.num_rows, args.width, vectorize,
        args.dweight.As<float>(),
        WeightedGeluBackwardOp<T>{args.dy.As<T>(), args.x.As<T>(), args.row_weight.As<float>(),
                                  args.dx.As<T>(), args.width});
  });
}

void MatMulEpilogue(const LaunchContext& context, const MatMulArgs& args) {
  switch (args.epilogue) {
    case base::Epilogue::kNone:
      return;
    case base::Epilogue::kBias:
      return LaunchEpilogue<base::Epilogue::kBias, true>(context, args);
    case base::Epilogue::kBiasGelu:
      return args.bias ? LaunchEpilogue<base::Epilogue::kBiasGelu, true>(context, args)
                       : LaunchEpilogue<base::Epilogue::kBiasGelu, false>(context, args);
    case base::Epilogue::kGeluGrad:
      return LaunchEpilogue<base::Epilogue::kGeluGrad, false>(context, args);
  }
}

}  // namespace tessera::kernels::cuda
