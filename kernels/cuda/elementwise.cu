// Passes over flat arrays, and sums of rows.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/masks.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename T>
struct ScaleOp {
  T* x;
  float factor;

  template <int kSize>
  __device__ void Run(int64_t i) const {
    float values[kSize];
    Load<kSize>(x + i, values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] *= factor;
    Store<kSize>(values, x + i);
  }
};

template <typename T>
struct FillOp {
  T* x;
  float value;

  template <int kSize>
  __device__ void Run(int64_t i) const {
    float values[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] = value;
    Store<kSize>(values, x + i);
  }
};

template <typename From, typename To>
struct AddOp {
  const From* __restrict__ x;
  To* y;

  template <int kSize>
  __device__ void Run(int64_t i) const {
    float terms[kSize], sums[kSize];
    Load<kSize>(x + i, terms);
    Load<kSize>(y + i, sums);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sums[j] += terms[j];
    Store<kSize>(sums, y + i);
  }
};

template <typename From, typename To>
struct CastOp {
  const From* __restrict__ source;
  To* __restrict__ destination;

  template <int kSize>
  __device__ void Run(int64_t i) const {
    float values[kSize];
    Load<kSize>(source + i, values);
    Store<kSize>(values, destination + i);
  }
};

// Rows of blocks, each where the strides say.
template <typename From, typename To>
struct CopyRowsOp {
  const From* __restrict__ from;
  To* __restrict__ to;
  int64_t num_rows;  // of a block
  CopyRowsArgs::Strides from_strides, to_strides;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    const int64_t block = row / num_rows;
    const int64_t row_of_block = row - block * num_rows;
    float values[kSize];
    Load<kSize>(from + block * from_strides.block + row_of_block * from_strides.row + column,
                values);
    Store<kSize>(values, to + block * to_strides.block + row_of_block * to_strides.row + column);
  }
};

template <typename T, bool kHasBias>
struct ResidualAddOp {
  const T* x;  // y may be one of its inputs
  const T* residual;
  const T* __restrict__ bias;
  T* y;
  int64_t width;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    const int64_t at = row * width + column;
    float sums[kSize], terms[kSize];
    Load<kSize>(x + at, sums);
    Load<kSize>(residual + at, terms);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sums[j] += terms[j];
    if constexpr (kHasBias) {
      Load<kSize>(bias + column, terms);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sums[j] += terms[j];
    }
    Store<kSize>(sums, y + at);
  }
};

// The residual and dropout of the rest.
template <typename T, bool kHasBias>
struct DroppedResidualAddOp {
  const T* x;  // y may be one of its inputs
  const T* residual;
  const T* __restrict__ bias;
  T* y;
  int64_t width;
  RowDropoutRule dropout;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    const int64_t at = row * width + column;
    float sums[kSize], terms[kSize];
    Load<kSize>(x + at, sums);
    if constexpr (kHasBias) {
      Load<kSize>(bias + column, terms);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sums[j] += terms[j];
    }
    dropout.Apply(row, column, sums);
    Load<kSize>(residual + at, terms);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sums[j] += terms[j];
    Store<kSize>(sums, y + at);
  }
};

template <typename T, bool kHasBias>
void LaunchResidualAdd(const LaunchContext& context, const ResidualAddArgs& args) {
  constexpr int kSize = kVectorSize<T>;
  const bool vectorize = CanVectorize(
      kSize, {args.x.data, args.residual.data, args.bias.data, args.y.data}, {args.width});
  const auto launch = [&](const auto& op) {
    LaunchRows<kSize>(context, "residual add", args.num_rows, args.width, vectorize, op);
  };
  const T* const x = args.x.As<T>();
  const T* const residual = args.residual.As<T>();
  const T* const bias = args.bias.As<T>();
  if (args.dropout.probability > 0) {
    launch(DroppedResidualAddOp<T, kHasBias>{x, residual, bias, args.y.As<T>(), args.width,
                                             RowDropoutRuleOf(args.dropout)});
  } else {
    launch(ResidualAddOp<T, kHasBias>{x, residual, bias, args.y.As<T>(), args.width});
  }
}

// Calls body with the tags of both arrays' types.
template <typename Body>
void WithFloatTypes(base::DType first, base::DType second, const Body& body) {
  WithFloatType(first, [&](auto first_tag) {
    WithFloatType(second, [&](auto second_tag) { body(first_tag, second_tag); });
  });
}

}  // namespace

void ResidualAdd(const LaunchContext& context, const ResidualAddArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (args.bias) {
      LaunchResidualAdd<T, true>(context, args);
    } else {
      LaunchResidualAdd<T, false>(context, args);
    }
  });
}

void Scale(const LaunchContext& context, Array x, int64_t n, float factor) {
  WithFloatType(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchFlat<kVectorSize<T>>(context, "scale", n, CanVectorize(1, {x.data}, {}),
                               ScaleOp<T>{x.As<T>(), factor});
  });
}

void Add(const LaunchContext& context, ConstArray x, Array y, int64_t n) {
  WithFloatTypes(x.dtype, y.dtype, [&](auto from_tag, auto to_tag) {
    using From = typename decltype(from_tag)::Type;
    using To = typename decltype(to_tag)::Type;
    LaunchFlat<kPairSize<From, To>>(context, "add", n, CanVectorize(1, {x.data, y.data}, {}),
                                    AddOp<From, To>{x.As<From>(), y.As<To>()});
  });
}

void Fill(const LaunchContext& context, Array x, int64_t n, float value) {
  WithFloatType(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchFlat<kVectorSize<T>>(context, "fill", n, CanVectorize(1, {x.data}, {}),
                               FillOp<T>{x.As<T>(), value});
  });
}

void CopyRows(const LaunchContext& context, const CopyRowsArgs& args) {
  WithFloatTypes(args.x.dtype, args.y.dtype, [&](auto from_tag, auto to_tag) {
    using From = typename decltype(from_tag)::Type;
    using To = typename decltype(to_tag)::Type;
    constexpr int kSize = kPairSize<From, To>;
    const bool vectorize = CanVectorize(kSize, {args.x.data, args.y.data},
                                        {args.width, args.x_strides.block, args.x_strides.row,
                                         args.y_strides.block, args.y_strides.row});
    LaunchRows<kSize>(context, "copy of rows", args.num_blocks * args.num_rows, args.width,
                      vectorize,
                      CopyRowsOp<From, To>{args.x.As<From>(), args.y.As<To>(), args.num_rows,
                                           args.x_strides, args.y_strides});
  });
}

void Copy(const LaunchContext& context, ConstArray source, Array destination, int64_t n) {
  if (n == 0) return;
  CheckCuda(cudaMemcpyAsync(destination.data, source.data,
                            static_cast<size_t>(n * base::SizeBytes(source.dtype)),
                            cudaMemcpyDeviceToDevice, context.stream),
            "copy: cudaMemcpyAsync");
}

void Cast(const LaunchContext& context, ConstArray source, Array destination, int64_t n) {
  WithFloatTypes(source.dtype, destination.dtype, [&](auto from_tag, auto to_tag) {
    using From = typename decltype(from_tag)::Type;
    using To = typename decltype(to_tag)::Type;
    LaunchFlat<kPairSize<From, To>>(context, "cast", n,
                                    CanVectorize(1, {source.data, destination.data}, {}),
                                    CastOp<From, To>{source.As<From>(), destination.As<To>()});
  });
}

}  // namespace tessera::kernels::cuda
