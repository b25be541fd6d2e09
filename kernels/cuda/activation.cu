// SwiGLU, and the epilogues of a matrix product.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename T>
struct SwiGluForwardOp {
  const T* __restrict__ gate_up;
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
    Store<kSize>(gate, y + row * width + column);
  }
};

// silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g).
template <typename T>
struct SwiGluBackwardOp {
  const T* __restrict__ dy;
  const T* gate_up;  // dgate_up may be the same
  T* dgate_up;
  int64_t width;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    float gate[kSize], up[kSize], grad[kSize];
    const int64_t at = row * 2 * width + column;
    Load<kSize>(gate_up + at, gate);
    Load<kSize>(gate_up + at + width, up);
    Load<kSize>(dy + row * width + column, grad);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const auto [sigmoid, complement] = Sigmoid(gate[j]);
      const float silu = gate[j] * sigmoid;
      gate[j] = grad[j] * up[j] * sigmoid * (1.0F + gate[j] * complement);
      up[j] = grad[j] * silu;
    }
    Store<kSize>(gate, dgate_up + at);
    Store<kSize>(up, dgate_up + at + width);
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
                      SwiGluForwardOp<T>{args.gate_up.As<T>(), args.y.As<T>(), args.width});
  });
}

void SwiGluBackward(const LaunchContext& context, const SwiGluBackwardArgs& args) {
  WithFloatType(args.gate_up.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    const bool vectorize =
        CanVectorize(kSize, {args.dy.data, args.gate_up.data, args.dgate_up.data}, {args.width});
    LaunchRows<kSize>(context, "swiglu backward", args.num_rows, args.width, vectorize,
                      SwiGluBackwardOp<T>{args.dy.As<T>(), args.gate_up.As<T>(),
                                          args.dgate_up.As<T>(), args.width});
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
