#include <cmath>

#include "cost_model/base/math.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
struct DropoutParams {
  const T* x;
  T* y;
  int64_t num_rows, width;
  uint2 key;
  uint64_t first_index, index_stride;
  uint32_t threshold;  // draws from here on stay
  float scale;
};

// One thread takes kSize elements of a row.
template <typename T, int kSize>
__global__ void __launch_bounds__(kThreads) DropoutKernel(DropoutParams<T> params) {
  const int64_t pieces_per_row = params.width / kSize;
  const int64_t piece = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (piece >= params.num_rows * pieces_per_row) return;
  const int64_t row = piece / pieces_per_row;
  const int64_t column = (piece - row * pieces_per_row) * kSize;
  const uint64_t first_index = params.first_index +
                               static_cast<uint64_t>(row) * params.index_stride +
                               static_cast<uint64_t>(column);
  float values[kSize];
  Load<kSize>(params.x + row * params.width + column, values);
  PhiloxDraws draws(params.key, first_index);
#pragma unroll
  for (int i = 0; i < kSize; ++i) {
    const bool stays = draws.At(first_index + i) >= params.threshold;
    values[i] = stays ? values[i] * params.scale : 0.0F;
  }
  Store<kSize>(values, params.y + row * params.width + column);
}

template <typename T, int kSize>
void LaunchDropout(const LaunchContext& context, const DropoutParams<T>& params) {
  const int64_t pieces = params.num_rows * params.width / kSize;
  const LaunchShape shape{dim3(static_cast<unsigned>(base::CeilDiv(pieces, kThreads))),
                          dim3(kThreads)};
  Launch("Dropout", DropoutKernel<T, kSize>, shape, context.stream, params);
}

}  // namespace

void Dropout(const LaunchContext& context, const DropoutArgs& args) {
  // A draw is bits * 2^-32, exactly; so is the product here: bits * 2^-32 >= probability, in
  // double, is bits >= threshold. It is below 2^32, as probability is a float below 1.
  const double probability = args.probability;
  const auto threshold = static_cast<uint32_t>(std::ceil(probability * 0x1p32));
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const DropoutParams<T> params{.x = args.x.As<T>(),
                                  .y = args.y.As<T>(),
                                  .num_rows = args.num_rows,
                                  .width = args.width,
                                  .key = make_uint2(args.key[0], args.key[1]),
                                  .first_index = args.first_index,
                                  .index_stride = args.index_stride,
                                  .threshold = threshold,
                                  .scale = static_cast<float>(1.0 / (1.0 - probability))};
    if (CanVectorize(kVectorSize<T>, {params.x, params.y}, {args.width})) {
      LaunchDropout<T, kVectorSize<T>>(context, params);
    } else {
      LaunchDropout<T, 1>(context, params);
    }
  });
}

}  // namespace tessera::kernels::cuda
