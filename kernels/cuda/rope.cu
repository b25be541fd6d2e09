// Rotary position embedding (Su et al. 2021, arXiv:2104.09864), rotate-half form, in place.
#include <numbers>

#include "kernels/cuda/documents.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

constexpr int kPiece = 128;  // pairs of a head that one launch turns
constexpr int kThreads = 256;

// Turns (of 2 pi) for each position, by pair: in double, as late positions turn many times.
struct Frequencies {
  double turns[kPiece];
};

template <typename T>
struct RopeParams {
  T* __restrict__ qk;  // at the first pair of the piece
  int64_t num_rows, num_heads, head_dim, stride;
  uint32_t sequence;
  int num_pairs;  // of the piece
  base::TokenPositions positions;
  DocumentRule documents;
};

// A block takes rows in turn: the sines and cosines of its row go to shared memory, for all heads.
template <typename T, int kSize>
__global__ void __launch_bounds__(kThreads)
    RopeKernel(const RopeParams<T> p, const Frequencies frequencies) {
  __shared__ __align__(16) float cosines[kPiece];
  __shared__ __align__(16) float sines[kPiece];
  const int packs_per_head = p.num_pairs / kSize;
  const int num_packs = packs_per_head * static_cast<int>(p.num_heads);
  for (int64_t row = blockIdx.x; row < p.num_rows; row += gridDim.x) {
    const uint32_t sample = static_cast<uint32_t>(row) / p.sequence;
    const int64_t token = static_cast<uint32_t>(row) - sample * p.sequence;
    const auto position =
        static_cast<double>(p.documents.PositionOf(sample, PositionOf(p.positions, token)));
    for (int i = static_cast<int>(threadIdx.x); i < p.num_pairs; i += kThreads) {
      const double turns = position * frequencies.turns[i];
      sincospif(static_cast<float>(2.0 * (turns - rint(turns))), &sines[i], &cosines[i]);
    }
    __syncthreads();
    for (int pack = static_cast<int>(threadIdx.x); pack < num_packs; pack += kThreads) {
      const int head = pack / packs_per_head;
      const int pair = (pack - head * packs_per_head) * kSize;
      T* const low = p.qk + row * p.stride + head * p.head_dim + pair;
      T* const high = low + p.head_dim / 2;
      float a[kSize], b[kSize], cosine[kSize], sine[kSize];
      Load<kSize>(low, a);
      Load<kSize>(high, b);
      Load<kSize>(cosines + pair, cosine);
      Load<kSize>(sines + pair, sine);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float turned = a[j] * cosine[j] - b[j] * sine[j];
        b[j] = b[j] * cosine[j] + a[j] * sine[j];
        a[j] = turned;
      }
      Store<kSize>(a, low);
      Store<kSize>(b, high);
    }
    __syncthreads();  // before the next row's sines
  }
}

}  // namespace

void Rope(const LaunchContext& context, const RopeArgs& args) {
  constexpr int64_t kMostRows = int64_t{1} << 31;  // divisions of 32 bits are far shorter
  TESSERA_CHECK(args.num_rows <= kMostRows && args.sequence <= kMostRows, args.num_rows, " rows");
  const int64_t half = args.head_dim / 2;
  const double direction = (args.inverse ? -1.0 : 1.0) / (2.0 * std::numbers::pi);
  const auto num_blocks = static_cast<unsigned>(
      std::min(args.num_rows, context.num_multiprocessors * kElementBlocksPerMultiprocessor));
  const LaunchShape shape{dim3(num_blocks), dim3(kThreads)};
  WithFloatType(args.qk.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    for (int64_t begin = 0; begin < half; begin += kPiece) {
      Frequencies frequencies = {};
      const int64_t num_pairs = std::min(half - begin, int64_t{kPiece});
      for (int64_t i = 0; i < num_pairs; ++i) {
        frequencies.turns[i] = args.inverse_frequency[begin + i] * direction;
      }
      const RopeParams<T> params{args.qk.As<T>() + begin,
                                 args.num_rows,
                                 args.num_heads,
                                 args.head_dim,
                                 args.stride,
                                 static_cast<uint32_t>(args.sequence),
                                 static_cast<int>(num_pairs),
                                 args.positions,
                                 DocumentRuleOf(args.documents)};
      if (CanVectorize(kSize, {args.qk.data}, {half, args.stride})) {
        Launch("rope", RopeKernel<T, kSize>, shape, context.stream, params, frequencies);
      } else {
        Launch("rope", RopeKernel<T, 1>, shape, context.stream, params, frequencies);
      }
    }
  });
}

}  // namespace tessera::kernels::cuda
