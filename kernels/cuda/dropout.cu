#include <cmath>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename T>
struct DropoutOp {
  const T* x;  // y may be the same
  T* y;
  int64_t width;
  uint2 key;
  uint64_t first_index, index_stride;
  uint32_t threshold;  // draws from here on stay
  float scale;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    const uint64_t first =
        first_index + static_cast<uint64_t>(row) * index_stride + static_cast<uint64_t>(column);
    float values[kSize];
    Load<kSize>(x + row * width + column, values);
    PhiloxDraws draws(key, first);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      values[i] = draws.At(first + i) >= threshold ? values[i] * scale : 0.0F;
    }
    Store<kSize>(values, y + row * width + column);
  }
};

}  // namespace

void Dropout(const LaunchContext& context, const DropoutArgs& args) {
  // A draw is bits * 2^-32, exactly; so is the product here: bits * 2^-32 >= probability, in
  // double, is bits >= threshold. It is below 2^32, as probability is a float below 1.
  const double probability = args.probability;
  const auto threshold = static_cast<uint32_t>(std::ceil(probability * 0x1p32));
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    LaunchRows<kSize>(context, "dropout", args.num_rows, args.width,
                      CanVectorize(kSize, {args.x.data, args.y.data}, {args.width}),
                      DropoutOp<T>{.x = args.x.As<T>(),
                                   .y = args.y.As<T>(),
                                   .width = args.width,
                                   .key = make_uint2(args.key[0], args.key[1]),
                                   .first_index = args.first_index,
                                   .index_stride = args.index_stride,
                                   .threshold = threshold,
                                   .scale = static_cast<float>(1.0 / (1.0 - probability))});
  });
}

}  // namespace tessera::kernels::cuda
