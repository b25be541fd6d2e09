// Barriers of blocks, and what the emulation says of wrong ones.
#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "tests/cuda_emulation/emulation_testing.h"

namespace tessera::cuda_emulation {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kBlock = 96;

// Every block reverses its part of the array through shared memory.
__global__ void Reverse(int* out, const int* in) {
  __shared__ int part[kBlock];
  const int first = static_cast<int>(blockIdx.x * blockDim.x);
  part[threadIdx.x] = in[first + threadIdx.x];
  __syncthreads();
  out[first + threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}

__global__ void ReverseWithoutBarrier(int* out, const int* in) {
  __shared__ int part[kBlock];
  part[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}

std::vector<int> Ascending(int size) {
  std::vector<int> values(size);
  std::iota(values.begin(), values.end(), 100);
  return values;
}

TEST(BarrierTest, WhatIsWrittenBeforeABarrierIsReadAfterIt) {
  constexpr int kNumBlocks = 5;
  const std::vector<int> values = Ascending(kNumBlocks * kBlock);
  for (ExecutionSettings settings : AllOrders()) {
    for (int num_workers : {1, 2}) {
      settings.num_workers = num_workers;
      const ScopedSettings scoped(settings);
      const DeviceArray<int> in(values);
      const DeviceArray<int> out(values.size());
      LaunchAndWait(Reverse, kNumBlocks, kBlock, 0, out.data(), in.data());
      const std::vector<int> reversed = out.Get();
      for (int i = 0; i < kNumBlocks * kBlock; ++i) {
        ASSERT_EQ(reversed[i], values[i / kBlock * kBlock + kBlock - 1 - i % kBlock]) << "i=" << i;
      }
    }
  }
}

TEST(BarrierTest, AMissingBarrierShowsInSomeOrder) {
  const std::vector<int> values = Ascending(kBlock);
  const std::vector<int> expected(values.rbegin(), values.rend());
  int num_wrong = 0;
  for (const ExecutionSettings& settings : AllOrders()) {
    const ScopedSettings scoped(settings);
    const DeviceArray<int> in(values);
    const DeviceArray<int> out(values.size());
    LaunchAndWait(ReverseWithoutBarrier, 1, kBlock, 0, out.data(), in.data());
    num_wrong += out.Get() != expected;
  }
  EXPECT_GE(num_wrong, 2);
}

__global__ void Vote(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  out[t] = __syncthreads_count(t % 3 == 0);
  out[blockDim.x + t] = __syncthreads_or(t == 70) * 10 + __syncthreads_or(0);
  out[2 * blockDim.x + t] = __syncthreads_and(t < 1000) * 10 + __syncthreads_and(t != 70);
}

TEST(BarrierTest, VotesCountAllThreads) {
  for (const ExecutionSettings& settings : AllOrders()) {
    const ScopedSettings scoped(settings);
    const DeviceArray<int> out(3 * 80);
    LaunchAndWait(Vote, 1, 80, 0, out.data());
    const std::vector<int> votes = out.Get();
    for (int t = 0; t < 80; ++t) {
      ASSERT_EQ(votes[t], 27);  // 0, 3, ... 78
      ASSERT_EQ(votes[80 + t], 10);
      ASSERT_EQ(votes[160 + t], 10);
    }
  }
}

__global__ void CountAfterHalfReturned(int* out) {
  if (threadIdx.x >= 40) return;
  out[threadIdx.x] = __syncthreads_count(1);
}

TEST(BarrierTest, ThreadsThatReturnedAreNotWaitedFor) {
  for (const ExecutionSettings& settings : AllOrders()) {
    const ScopedSettings scoped(settings);
    const DeviceArray<int> out(40);
    LaunchAndWait(CountAfterHalfReturned, 1, 80, 0, out.data());
    EXPECT_THAT(out.Get(), ::testing::Each(40));
  }
}

__global__ void WaitApart(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
    __syncthreads();
  }
}

__global__ void DivergentBarrier() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

TEST(BarrierTest, ADeadlockIsToldWithKernelBlockThreadsAndPlace) {
  const ScopedSettings scoped({.order = ThreadOrder::kForward});  // the first block to fail is told
  const std::string fault = FaultOf(DivergentBarrier, dim3(1, 2), 64, 0);
  EXPECT_THAT(fault,
              AllOf(HasSubstr("DivergentBarrier"), HasSubstr("block (0, 0, 0)"),
                    HasSubstr("deadlock"), HasSubstr("32 threads wait at __syncthreads"),
                    HasSubstr("32 threads wait at __syncwarp"), HasSubstr("barrier_test.cc:")));
}

TEST(BarrierTest, BarriersInBothBranchesAreNotOneBarrier) {
  const DeviceArray<int> out(64);
  EXPECT_THAT(FaultOf(WaitApart, 1, 64, 0, out.data()),
              HasSubstr("threads of a block meet at different barriers"));
}

TEST(BarrierTest, AFaultIsThrownOnceAndThenReturned) {
  const TestStream stream;
  Expect(Launch(stream, DivergentBarrier, 1, 64, 0));
  EXPECT_THROW(cudaStreamSynchronize(stream), Fault);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_EQ(Launch(stream, DivergentBarrier, 1, 64, 0), cudaErrorLaunchFailure);
  ResetDevices();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

}  // namespace
}  // namespace tessera::cuda_emulation
