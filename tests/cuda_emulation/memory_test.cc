// Memory of the devices: poison, guards, quarantine, limits, and the checks of copies.
#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "tests/cuda_emulation/emulation_testing.h"
#include "tests/cuda_emulation/runtime/device_memory.h"
#include "tests/cuda_emulation/scopes.h"

namespace tessera::cuda_emulation {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

__global__ void Store(float* to, int64_t index) { to[index] = 1.0f; }

// Hides a pointer from the check of arguments, as a struct of arguments does.
struct Hidden {
  float* to;
};
__global__ void StoreHidden(Hidden hidden, int64_t index) { hidden.to[index] = 1.0f; }

TEST(DeviceMemoryTest, UnwrittenMemoryIsNan) {
  const DeviceArray<float> array(100);
  for (float value : array.Get()) EXPECT_TRUE(std::isnan(value));
}

TEST(DeviceMemoryTest, PointersAreOfTheirKindInTheirRangeOnly) {
  int on_the_stack = 0;
  void* pinned = nullptr;
  Expect(cudaMallocHost(&pinned, 64));
  const DeviceArray<char> array(1000);
  EXPECT_EQ(KindOf(&on_the_stack), MemoryKind::kPageable);
  EXPECT_EQ(KindOf(pinned), MemoryKind::kPinned);
  EXPECT_EQ(KindOf(array.data() + 999), MemoryKind::kDevice);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % 256, 0u);
  EXPECT_TRUE(IsDeviceMemory(array.data() + 10, 990));
  EXPECT_FALSE(IsDeviceMemory(array.data() + 10, 991));
  EXPECT_FALSE(IsDeviceMemory(pinned, 1));
  Expect(cudaFreeHost(pinned));
  EXPECT_EQ(KindOf(pinned), MemoryKind::kFreed);
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&on_the_stack), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(DeviceMemoryTest, AWriteJustBesideAnAllocationIsFound) {
  const DeviceArray<float> array(25);
  for (int64_t index : {int64_t{-1}, int64_t{25}}) {
#ifdef __SANITIZE_ADDRESS__
    EXPECT_DEATH(FaultOf(Store, 1, 1, 0, array.data(), index), "use-after-poison");
#else
    EXPECT_THAT(FaultOf(Store, 1, 1, 0, array.data(), index),
                AllOf(HasSubstr("kernel tessera::cuda_emulation::Store"),
                      HasSubstr(index < 0 ? "bytes before" : "bytes after"),
                      HasSubstr("allocation of 100 bytes on device 0")));
#endif
  }
  EXPECT_EQ(FaultOf(Store, 1, 1, 0, array.data(), int64_t{24}), "no fault");
}

TEST(DeviceMemoryTest, FreedMemoryIsFoundWhenItIsUsed) {
  float* freed = nullptr;
  Expect(cudaMalloc(&freed, 64));
  Expect(cudaFree(freed));
  EXPECT_THAT(FaultOf(Store, 1, 1, 0, freed, int64_t{0}), HasSubstr("which was freed"));
#ifdef __SANITIZE_ADDRESS__
  EXPECT_DEATH(LaunchAndWait(StoreHidden, 1, 1, 0, Hidden{freed}, int64_t{0}), "use-after-poison");
#else
  LaunchAndWait(StoreHidden, 1, 1, 0, Hidden{freed}, int64_t{0});
  EXPECT_THROW(cudaDeviceSynchronize(), Fault);
  ResetDevices();
#endif
}

TEST(DeviceMemoryTest, AnAllocationBeyondTheLimitIsRefused) {
  const Scope limit = WithDeviceMemoryLimit(10000);
  void* first = nullptr;
  void* second = nullptr;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  EXPECT_EQ(cudaMalloc(&first, 6000), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 6000), cudaErrorMemoryAllocation);
  EXPECT_EQ(second, nullptr);
  Expect(cudaMemGetInfo(&free_bytes, &total_bytes));
  EXPECT_EQ(free_bytes, 4000u);
  EXPECT_EQ(total_bytes, 10000u);
  Expect(cudaFree(first));
  EXPECT_EQ(cudaMalloc(&second, 6000), cudaSuccess);
  Expect(cudaFree(second));
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(CopyTest, BytesArriveInAllDirections) {
  const std::vector<int> values{1, 2, 3, 4};
  const DeviceArray<int> a(values);
  const DeviceArray<int> b(4);
  Expect(cudaMemcpy(b.data(), a.data(), 4 * sizeof(int), cudaMemcpyDeviceToDevice));
  EXPECT_EQ(b.Get(), values);
  Expect(cudaMemset(b.data() + 1, 0, 2 * sizeof(int)));
  EXPECT_EQ(b.Get(), (std::vector<int>{1, 0, 0, 4}));
  Expect(cudaMemcpy(b.data(), values.data() + 2, 2 * sizeof(int), cudaMemcpyDefault));
  EXPECT_EQ(b.Get(), (std::vector<int>{3, 4, 0, 4}));
}

TEST(CopyTest, WrongSidesAndSizesAreRefused) {
  int host[4] = {};
  const DeviceArray<int> device(4);
  EXPECT_EQ(cudaMemcpy(host, host, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.data(), device.data(), 4, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.data(), host, 20, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host, 0, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(DeviceTest, OnlyDevicesThatExistCanBeChosen) {
  int device = -1;
  Expect(cudaSetDevice(GetDeviceCount() - 1));
  Expect(cudaGetDevice(&device));
  EXPECT_EQ(device, GetDeviceCount() - 1);
  EXPECT_EQ(cudaSetDevice(GetDeviceCount()), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  Expect(cudaSetDevice(0));
  cudaDeviceProp properties;
  Expect(cudaGetDeviceProperties(&properties, 0));
  EXPECT_EQ(properties.warpSize, 32);
  int shared_bytes = 0;
  Expect(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  EXPECT_EQ(shared_bytes, 227 * 1024);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidDevice");
}

TEST(DeviceTest, ThereAreAsManyDevicesAndMultiprocessorsAsToldTo) {
  int count = 0;
  cudaDeviceProp properties;
  const Scope count_scope = WithDeviceCount(2);
  const Scope size_scope = WithMultiprocessors(7);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 2), cudaErrorInvalidDevice);
  Expect(cudaGetDeviceProperties(&properties, 1));
  EXPECT_EQ(properties.multiProcessorCount, 7);
  SetDeviceCount(0);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  cudaGetLastError();
}

}  // namespace
}  // namespace tessera::cuda_emulation
