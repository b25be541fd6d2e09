// Tensor-core fragments against products in double.
#include <gmock/gmock.h>
#include <mma.h>

#include <random>
#include <vector>

#include "tests/cuda_emulation/emulation_testing.h"

namespace tessera::cuda_emulation {
namespace {

using ::testing::HasSubstr;
namespace wmma = nvcuda::wmma;

constexpr int kSide = 16;
constexpr int kDepth = 64;

// c[16, 16] = scale * (a[16, kDepth] b[kDepth, 16] + c), one warp, operands laid out as told.
template <class T, class LayoutA, class LayoutB>
__global__ void Multiply(const T* a, const T* b, float* c, float scale, bool is_row_major) {
  const wmma::layout_t layout = is_row_major ? wmma::mem_row_major : wmma::mem_col_major;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::load_matrix_sync(sum, c, kSide, layout);
  for (int k = 0; k < kDepth; k += kSide) {
    constexpr bool kRowsOfA = std::is_same_v<LayoutA, wmma::row_major>;
    constexpr bool kRowsOfB = std::is_same_v<LayoutB, wmma::row_major>;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, LayoutA> part_a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, LayoutB> part_b;
    wmma::load_matrix_sync(part_a, kRowsOfA ? a + k : a + k * kSide, kRowsOfA ? kDepth : kSide);
    wmma::load_matrix_sync(part_b, kRowsOfB ? b + k * kSide : b + k, kRowsOfB ? kSide : kDepth);
    wmma::mma_sync(sum, part_a, part_b, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= scale;
  wmma::store_matrix_sync(c, sum, kSide, layout);
}

template <class T, class LayoutA, class LayoutB>
void ExpectProduct(bool is_row_major) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<T> a(kSide * kDepth);
  std::vector<T> b(kDepth * kSide);
  std::vector<float> c(kSide * kSide);
  for (T& value : a) value = T(normal(random));
  for (T& value : b) value = T(normal(random));
  for (float& value : c) value = normal(random);
  const DeviceArray<T> device_a(a);
  const DeviceArray<T> device_b(b);
  const DeviceArray<float> device_c(c);
  LaunchAndWait(Multiply<T, LayoutA, LayoutB>, 1, 32, 0, device_a.data(), device_b.data(),
                device_c.data(), 0.5f, is_row_major);
  const std::vector<float> got = device_c.Get();
  constexpr bool kRowsOfA = std::is_same_v<LayoutA, wmma::row_major>;
  constexpr bool kRowsOfB = std::is_same_v<LayoutB, wmma::row_major>;
  for (int i = 0; i < kSide; ++i) {
    for (int j = 0; j < kSide; ++j) {
      const int at = is_row_major ? i * kSide + j : j * kSide + i;
      double sum = c[at];
      for (int k = 0; k < kDepth; ++k) {
        sum +=
            static_cast<double>(static_cast<float>(a[kRowsOfA ? i * kDepth + k : k * kSide + i])) *
            static_cast<float>(b[kRowsOfB ? k * kSide + j : j * kDepth + k]);
      }
      // kDepth sums in fp32, of numbers around kDepth^0.5.
      ASSERT_NEAR(got[at], 0.5 * sum, 2e-5) << i << ", " << j;
    }
  }
}

TEST(WmmaTest, ProductsMatchDoubleInAllLayouts) {
  for (const ExecutionSettings& settings : AllOrders()) {
    const ScopedSettings scoped(settings);
    ExpectProduct<__nv_bfloat16, wmma::row_major, wmma::row_major>(true);
    ExpectProduct<__nv_bfloat16, wmma::row_major, wmma::col_major>(false);
    ExpectProduct<__half, wmma::col_major, wmma::row_major>(true);
    ExpectProduct<__half, wmma::col_major, wmma::col_major>(false);
  }
}

__global__ void MultiplyWithHalfAWarp() {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(a, 1.0f);
  wmma::fill_fragment(b, 1.0f);
  wmma::fill_fragment(c, 0.0f);
  if (threadIdx.x < 16) wmma::mma_sync(c, a, b, c);
}
__global__ void StoreAt(float* to, unsigned stride) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);
  wmma::store_matrix_sync(to, c, stride, wmma::mem_row_major);
}

TEST(WmmaTest, HalfAWarpAndMisalignedTilesAreFaults) {
  EXPECT_THAT(FaultOf(MultiplyWithHalfAWarp, 1, 32, 0), HasSubstr("mma_sync"));
  const DeviceArray<float> tile(512);
  EXPECT_THAT(FaultOf(StoreAt, 1, 32, 0, tile.data() + 4, 16), HasSubstr("aligned to 32 bytes"));
  EXPECT_THAT(FaultOf(StoreAt, 1, 32, 0, tile.data(), 18), HasSubstr("leading dimension"));
  LaunchAndWait(StoreAt, 1, 32, 0, tile.data() + 8, 20);
}

}  // namespace
}  // namespace tessera::cuda_emulation
