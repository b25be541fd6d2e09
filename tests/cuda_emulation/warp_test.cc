// Warp intrinsics against what the CUDA programming guide says of them.
#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "tests/cuda_emulation/emulation_testing.h"

namespace tessera::cuda_emulation {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kFull = 0xffffffffu;

// The four shuffles with a width: out[4 * t ...], values 100 + t.
__global__ void Shuffle(int* out, int argument, int width) {
  const int t = static_cast<int>(threadIdx.x);
  out[4 * t] = __shfl_sync(kFull, 100 + t, argument, width);
  out[4 * t + 1] = __shfl_up_sync(kFull, 100 + t, argument, width);
  out[4 * t + 2] = __shfl_down_sync(kFull, 100 + t, argument, width);
  out[4 * t + 3] = __shfl_xor_sync(kFull, 100 + t, argument, width);
}

TEST(WarpTest, ShufflesStayInSegmentsOfTheirWidth) {
  for (const ExecutionSettings& settings : AllOrders()) {
    const ScopedSettings scoped(settings);
    for (int width : {2, 8, 32}) {
      for (int argument : {0, 1, 3, 9, 31}) {
        const DeviceArray<int> out(4 * 64);
        LaunchAndWait(Shuffle, 1, 64, 0, out.data(), argument, width);
        const std::vector<int> got = out.Get();
        for (int t = 0; t < 64; ++t) {
          const int first = t / width * width;
          const int in_segment = t - first;
          const int from_up = in_segment >= argument ? t - argument : t;
          const int from_down = in_segment + argument < width ? t + argument : t;
          // An xor into a later segment gives the own value, into an earlier one that lane's.
          const int other = t / 32 * 32 + ((t % 32) ^ argument);
          const int from_xor = other < first + width ? other : t;
          ASSERT_EQ(got[4 * t], 100 + first + argument % width) << t << " " << width;
          ASSERT_EQ(got[4 * t + 1], 100 + from_up) << t << " " << width << " " << argument;
          ASSERT_EQ(got[4 * t + 2], 100 + from_down) << t << " " << width << " " << argument;
          ASSERT_EQ(got[4 * t + 3], 100 + from_xor) << t << " " << width << " " << argument;
        }
      }
    }
  }
}

__global__ void ShuffleOtherTypes(double* doubles, float2* pairs) {
  const int t = static_cast<int>(threadIdx.x);
  doubles[t] = __shfl_xor_sync(kFull, t + 0.25, 5);
  pairs[t] = __shfl_down_sync(kFull, make_float2(1.0f * t, -1.0f * t), 1);
}

TEST(WarpTest, ShufflesMoveEightBytes) {
  const DeviceArray<double> doubles(32);
  const DeviceArray<float2> pairs(32);
  LaunchAndWait(ShuffleOtherTypes, 1, 32, 0, doubles.data(), pairs.data());
  EXPECT_EQ(doubles.Get()[3], 6.25);
  EXPECT_EQ(pairs.Get()[3].y, -4.0f);
}

// Both halves of a warp shuffle on their own, then all of it together.
__global__ void SubMasks(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  int sum = t;
  if (t < 16) {
    for (int offset = 8; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffu, sum, offset);
  } else {
    for (int offset = 1; offset < 16; offset *= 2) sum += __shfl_xor_sync(0xffff0000u, sum, offset);
    sum += 1000;
  }
  __syncwarp();
  out[t] = sum + __shfl_sync(kFull, sum, 31);
}

TEST(WarpTest, LanesOfDifferentMasksDoNotWaitForEachOther) {
  for (const ExecutionSettings& settings : AllOrders()) {
    const ScopedSettings scoped(settings);
    const DeviceArray<int> out(32);
    LaunchAndWait(SubMasks, 1, 32, 0, out.data());
    const std::vector<int> got = out.Get();
    const int low = 15 * 16 / 2;
    const int high = 31 * 32 / 2 - low + 1000;
    for (int t = 0; t < 32; ++t) ASSERT_EQ(got[t], (t < 16 ? low : high) + high);
  }
}

__global__ void Votes(unsigned* out) {
  const int t = static_cast<int>(threadIdx.x);
  const int lane = t % 32;
  const unsigned mask = t < 32 ? kFull : 0xffu;  // the second warp has eight lanes
  out[6 * t] = __ballot_sync(mask, lane % 3 == 0);
  out[6 * t + 1] = __any_sync(mask, lane == 7);
  out[6 * t + 2] = __all_sync(mask, lane < 8);
  out[6 * t + 3] = __activemask();
  out[6 * t + 4] = __reduce_add_sync(mask, static_cast<unsigned>(lane));
  out[6 * t + 5] =
      static_cast<unsigned>(__reduce_max_sync(mask, lane - 10) - __reduce_min_sync(mask, -lane));
}

TEST(WarpTest, VotesAndReductionsHoldForWholeAndPartialWarps) {
  for (const ExecutionSettings& settings : AllOrders()) {
    const ScopedSettings scoped(settings);
    const DeviceArray<unsigned> out(6 * 40);
    LaunchAndWait(Votes, 1, 40, 0, out.data());
    const std::vector<unsigned> got = out.Get();
    for (int t = 0; t < 40; ++t) {
      const bool is_whole = t < 32;
      ASSERT_EQ(got[6 * t], is_whole ? 0x49249249u : 0x49u);
      ASSERT_EQ(got[6 * t + 1], 1u);
      ASSERT_EQ(got[6 * t + 2], is_whole ? 0u : 1u);
      ASSERT_EQ(got[6 * t + 3], is_whole ? kFull : 0xffu);
      ASSERT_EQ(got[6 * t + 4], is_whole ? 496u : 28u);
      ASSERT_EQ(got[6 * t + 5], is_whole ? 21u + 31u : 7u - 10u + 7u);
    }
  }
}

__global__ void ReadFromAbsentLane(float* out) {
  out[threadIdx.x] = threadIdx.x < 4 ? __shfl_sync(0xfu, 1.0f, 9) : 0.0f;
}

TEST(WarpTest, ALaneOutsideTheMaskIsReadAsNan) {
  const DeviceArray<float> out(32);
  LaunchAndWait(ReadFromAbsentLane, 1, 32, 0, out.data());
  EXPECT_TRUE(std::isnan(out.Get()[0]));
  EXPECT_EQ(out.Get()[5], 0.0f);
}

// Neighbours exchange through shared memory; what is right needs a __syncwarp in between.
__global__ void ExchangeWithoutSyncwarp(int* out) {
  __shared__ int values[32];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
__global__ void ExchangeWithSyncwarp(int* out) {
  __shared__ int values[32];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}

TEST(WarpTest, AMissingSyncwarpShowsInSomeOrder) {
  int num_wrong = 0;
  for (const ExecutionSettings& settings : AllOrders()) {
    const ScopedSettings scoped(settings);
    const DeviceArray<int> out(32);
    LaunchAndWait(ExchangeWithSyncwarp, 1, 32, 0, out.data());
    const std::vector<int> expected = out.Get();
    for (int t = 0; t < 32; ++t) ASSERT_EQ(expected[t], t ^ 1);
    LaunchAndWait(ExchangeWithoutSyncwarp, 1, 32, 0, out.data());
    num_wrong += out.Get() != expected;
  }
  EXPECT_GE(num_wrong, 1);
}

__global__ void NotInItsMask(int* out) { out[threadIdx.x] = __shfl_sync(0x1u, 1, 0); }
__global__ void MixedIntrinsics(int* out) {
  if (threadIdx.x % 2 == 1) {
    out[0] = __shfl_sync(kFull, 1, 0);
  } else {
    out[1] = __any_sync(kFull, 1);
  }
}
__global__ void HalfOfTheMaskNeverComes(int* out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_xor_sync(kFull, 1, 1);
  } else {
    __syncthreads();
  }
}

TEST(WarpTest, WrongMasksAreFaults) {
  const DeviceArray<int> out(32);
  EXPECT_THAT(FaultOf(NotInItsMask, 1, 32, 0, out.data()), HasSubstr("not in its mask"));
  EXPECT_THAT(FaultOf(MixedIntrinsics, 1, 32, 0, out.data()),
              HasSubstr("lanes of one mask meet at"));
  EXPECT_THAT(FaultOf(HalfOfTheMaskNeverComes, 1, 32, 0, out.data()),
              HasSubstr("16 threads wait at __shfl_xor_sync warp_test.cc:"));
}

}  // namespace
}  // namespace tessera::cuda_emulation
