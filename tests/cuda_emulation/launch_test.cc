// Launches: which are refused, how blocks and threads are numbered, and dynamic shared memory.
#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "tests/cuda_emulation/emulation_testing.h"

extern __shared__ uint4 dynamic_shared[];

namespace tessera::cuda_emulation {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

__global__ void CountVisits(int* visits) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  atomicAdd(visits + block * blockDim.x * blockDim.y * blockDim.z + thread, 1);
}

TEST(LaunchTest, EveryThreadOfEveryBlockRunsOnce) {
  for (ExecutionSettings settings : AllOrders()) {
    for (int num_workers : {1, 3}) {
      settings.num_workers = num_workers;
      const ScopedSettings scoped(settings);
      const dim3 grid(5, 3, 2);
      const dim3 block(7, 3, 2);
      const DeviceArray<int> visits(std::vector<int>(30 * 42, 0));
      LaunchAndWait(CountVisits, grid, block, 0, visits.data());
      EXPECT_THAT(visits.Get(), ::testing::Each(1));
    }
  }
}

__global__ void Nothing() {}
__global__ void NeedsMuch() {}

TEST(LaunchTest, SizesBeyondTheDeviceAreRefused) {
  const TestStream stream;
  for (const dim3& block : {dim3(1025), dim3(32, 33), dim3(1, 1, 65), dim3(0)}) {
    EXPECT_EQ(Launch(stream, Nothing, 1, block, 0), cudaErrorInvalidConfiguration);
  }
  for (const dim3& grid : {dim3(0), dim3(1, 65536), dim3(1, 1, 65536)}) {
    EXPECT_EQ(Launch(stream, Nothing, grid, 32, 0), cudaErrorInvalidConfiguration);
  }
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(LaunchTest, MoreThan48KibibytesOfSharedMemoryMustBeAskedFor) {
  const TestStream stream;
  EXPECT_EQ(Launch(stream, NeedsMuch, 1, 32, 48 * 1024), cudaSuccess);
  EXPECT_EQ(Launch(stream, NeedsMuch, 1, 32, 48 * 1024 + 1), cudaErrorInvalidValue);
  const auto allow = [](int num_bytes) {
    return cudaFuncSetAttribute(NeedsMuch, cudaFuncAttributeMaxDynamicSharedMemorySize, num_bytes);
  };
  EXPECT_EQ(allow(227 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_EQ(allow(227 * 1024), cudaSuccess);
  cudaFuncAttributes attributes;
  Expect(cudaFuncGetAttributes(&attributes, NeedsMuch));
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 227 * 1024);
  EXPECT_EQ(Launch(stream, NeedsMuch, 1, 32, 227 * 1024), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaGetLastError();
}

__global__ void ReadUnwrittenShared(float* out) {
  auto* shared = reinterpret_cast<float*>(dynamic_shared);
  out[blockIdx.x * blockDim.x + threadIdx.x] = shared[threadIdx.x];
  shared[threadIdx.x] = 1.0f;  // must not be found by the next block
}

TEST(LaunchTest, DynamicSharedMemoryIsPoisonedBeforeEachBlock) {
  const DeviceArray<float> out(4 * 64);
  LaunchAndWait(ReadUnwrittenShared, 4, 64, 64 * sizeof(float), out.data());
  for (float value : out.Get()) EXPECT_TRUE(std::isnan(value));
}

__global__ void ReadUnwrittenStaticShared(float* out) {
  __shared__ float shared[64];
  out[blockIdx.x * blockDim.x + threadIdx.x] = shared[threadIdx.x];
  shared[threadIdx.x] = 1.0f;
}

TEST(LaunchTest, StaticSharedMemoryIsPoisonedBeforeEachBlock) {
  for (int launch = 0; launch < 2; ++launch) {
    const DeviceArray<float> out(4 * 64);
    LaunchAndWait(ReadUnwrittenStaticShared, 4, 64, 0, out.data());
    for (float value : out.Get()) EXPECT_TRUE(std::isnan(value)) << launch;
  }
}

__global__ void WriteBeyondShared(int index) {
  reinterpret_cast<float*>(dynamic_shared)[index] = 1.0f;
}

TEST(LaunchTest, AWriteBeyondDynamicSharedMemoryIsFound) {
#ifdef __SANITIZE_ADDRESS__
  EXPECT_DEATH(FaultOf(WriteBeyondShared, 1, 1, 64, 16), "use-after-poison");
#else
  EXPECT_THAT(FaultOf(WriteBeyondShared, 1, 1, 64, 16),
              AllOf(HasSubstr("WriteBeyondShared"), HasSubstr("beyond its 64 bytes")));
#endif
  EXPECT_EQ(FaultOf(WriteBeyondShared, 1, 1, 64, 15), "no fault");
}

TEST(LaunchTest, AHostPointerAsAnArgumentIsFound) {
  int on_the_stack = 0;
  EXPECT_THAT(FaultOf(CountVisits, 1, 1, 0, &on_the_stack), HasSubstr("pageable host memory"));
}

TEST(LaunchTest, TheDefaultStreamIsRefused) {
  EXPECT_THROW(Launch(nullptr, Nothing, 1, 1, 0), Fault);
}

TEST(LaunchTest, OccupancyCountsThreadsAndSharedMemory) {
  int num_blocks = 0;
  Expect(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&num_blocks, Nothing, 256, 0));
  EXPECT_EQ(num_blocks, 8);  // 2048 threads
  Expect(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&num_blocks, Nothing, 256, 100 * 1024));
  EXPECT_EQ(num_blocks, 2);  // 228 KiB
}

}  // namespace
}  // namespace tessera::cuda_emulation
