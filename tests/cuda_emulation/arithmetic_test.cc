// Atomics, bit tricks, and the 16-bit types.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/cuda_emulation/emulation_testing.h"

namespace tessera::cuda_emulation {
namespace {

__global__ void Atomics(int* ints, unsigned* words, unsigned long long* longs, float* floats,
                        double* doubles, int* slots) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(ints, t);
  atomicMax(ints + 1, t);
  atomicMin(ints + 2, t);
  slots[atomicAdd(words, 1u)] = t;
  atomicAdd(longs, 1ull << 40);
  atomicAdd(floats, 0.5f);
  atomicAdd(doubles, 0.25);
  if (atomicCAS(ints + 3, 0, t + 1) == 0) atomicExch(floats + 1, 7.0f);
}

TEST(AtomicsTest, NoUpdateIsLostAndEachReturnsWhatItFound) {
  for (ExecutionSettings settings : AllOrders()) {
    settings.num_workers = 2;
    const ScopedSettings scoped(settings);
    constexpr int kNumThreads = 8 * 128;
    const DeviceArray<int> ints(std::vector<int>{0, -1, 1 << 30, 0});
    const DeviceArray<unsigned> words(std::vector<unsigned>{0});
    const DeviceArray<unsigned long long> longs(std::vector<unsigned long long>{0});
    const DeviceArray<float> floats(std::vector<float>{0, 0});
    const DeviceArray<double> doubles(std::vector<double>{0});
    const DeviceArray<int> slots(kNumThreads);
    LaunchAndWait(Atomics, 8, 128, 0, ints.data(), words.data(), longs.data(), floats.data(),
                  doubles.data(), slots.data());
    EXPECT_EQ(ints.Get()[0], kNumThreads * (kNumThreads - 1) / 2);
    EXPECT_EQ(ints.Get()[1], kNumThreads - 1);
    EXPECT_EQ(ints.Get()[2], 0);
    EXPECT_GT(ints.Get()[3], 0);
    EXPECT_EQ(longs.Get()[0], static_cast<unsigned long long>(kNumThreads) << 40);
    EXPECT_EQ(floats.Get()[0], kNumThreads * 0.5f);
    EXPECT_EQ(floats.Get()[1], 7.0f);
    EXPECT_EQ(doubles.Get()[0], kNumThreads * 0.25);
    std::vector<bool> seen(kNumThreads, false);
    for (int t : slots.Get()) seen[t] = true;
    EXPECT_THAT(seen, ::testing::Each(true));
  }
}

// The nearest of all bf16 numbers, found by trying the neighbours.
unsigned short NearestBfloat16(float value) {
  const auto low = static_cast<unsigned short>(std::bit_cast<unsigned>(value) >> 16);
  unsigned short best = low;
  for (unsigned short candidate : {low, static_cast<unsigned short>(low + 1)}) {
    const auto value_of = [](unsigned short bits) {
      return static_cast<double>(std::bit_cast<float>(static_cast<unsigned>(bits) << 16));
    };
    const double distance = std::abs(value_of(candidate) - value);
    const double best_distance = std::abs(value_of(best) - value);
    if (distance < best_distance || (distance == best_distance && candidate % 2 == 0)) {
      best = candidate;
    }
  }
  return best;
}

TEST(Bfloat16Test, RoundsToTheNearestAndTiesToEven) {
  for (unsigned bits = 0x00800000u; bits < 0x7f000000u; bits += 0x1235u) {
    const float value = std::bit_cast<float>(bits);
    ASSERT_EQ(__nv_bfloat16(value).__x, NearestBfloat16(value)) << value;
    ASSERT_EQ(__nv_bfloat16(-value).__x, NearestBfloat16(value) | 0x8000) << value;
  }
  EXPECT_EQ(__nv_bfloat16(1.0f + 1.0f / 256).__x, 0x3f80);  // half way, down to even
  EXPECT_EQ(__nv_bfloat16(1.0f + 3.0f / 256).__x, 0x3f82);  // half way, up to even
  EXPECT_EQ(__nv_bfloat16(std::numeric_limits<float>::max()).__x, 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(__nv_bfloat16(std::nanf("")))));
}

TEST(Bfloat16Test, EveryNumberSurvivesTheWayToFloatAndBack) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    __nv_bfloat16 number;
    number.__x = static_cast<unsigned short>(bits);
    const auto wide = static_cast<float>(number);
    if (std::isnan(wide)) continue;
    ASSERT_EQ(__nv_bfloat16(wide).__x, bits);
  }
}

// The value of a half by its definition: sign, exponent of 5 bits with bias 15, 10 bits of
// fraction.
double ValueOfHalf(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const int fraction = static_cast<int>(bits & 1023);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(HalfTest, ConversionsFollowTheDefinitionOfBinary16) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    if ((bits >> 10 & 31) == 31) continue;
    __half number;
    number.__x = static_cast<unsigned short>(bits);
    const auto wide = static_cast<float>(number);
    ASSERT_EQ(static_cast<double>(wide), ValueOfHalf(bits));
    ASSERT_EQ(__half(wide).__x, bits);
  }
  EXPECT_TRUE(std::isinf(static_cast<float>(__half(65520.0f))));  // half way beyond the largest
  EXPECT_EQ(static_cast<float>(__half(2049.0f)), 2048.0f);        // ties to even
}

TEST(MathFunctionsTest, HalfTurnsAreExactAtQuarters) {
  for (int quarter = -8; quarter <= 8; ++quarter) {
    double sine, cosine;
    sincospi(0.5 * quarter, &sine, &cosine);
    const int phase = quarter & 3;
    EXPECT_EQ(sine, phase == 1 ? 1 : phase == 3 ? -1 : 0) << quarter;
    EXPECT_EQ(cosine, phase == 0 ? 1 : phase == 2 ? -1 : 0) << quarter;
  }
  for (double x : {0.1, 0.37, 1.62, -2.77, 5.01}) {
    EXPECT_NEAR(sinpi(x), std::sin(x * M_PI), 1e-14);
    EXPECT_NEAR(cospi(x), std::cos(x * M_PI), 1e-14);
    EXPECT_NEAR(sinpif(static_cast<float>(x)), std::sin(x * M_PI), 1e-6);
  }
}

TEST(MathFunctionsTest, BitFunctionsCountAsTheDevice) {
  EXPECT_EQ(__umulhi(0xffffffffu, 0xffffffffu), 0xfffffffeu);
  EXPECT_EQ(__mul24(0x00ffffff, 3), -3);  // 24 bits, all set, are minus one
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__popc(0xf0f0u), 8);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__float_as_uint(1.0f), 0x3f800000u);
  EXPECT_EQ(__int_as_float(0x40000000), 2.0f);
}

}  // namespace
}  // namespace tessera::cuda_emulation
