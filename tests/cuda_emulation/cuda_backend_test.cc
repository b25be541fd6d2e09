// Memory, copies, marks and the workspace of the CUDA backend, with the streams in every order.
#include "kernels/cuda/cuda_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <vector>

#include "cost_model/base/error.h"
#include "tests/cuda_emulation/runtime/device_memory.h"
#include "tests/cuda_emulation/scopes.h"

namespace tessera::kernels::cuda {
namespace {

using cuda_emulation::StreamOrder;

constexpr int64_t kWorkspaceBytes = kLeastScratchBytes;

class CudaBackendTest : public ::testing::TestWithParam<StreamOrder> {
 protected:
  // A value of each copy's own at each place.
  static std::vector<int32_t> Numbers(int64_t n, int seed) {
    std::vector<int32_t> numbers(static_cast<size_t>(n));
    std::iota(numbers.begin(), numbers.end(), seed * 1'000'003);
    return numbers;
  }

 private:
  const cuda_emulation::Scope order_ = cuda_emulation::WithStreamOrder(GetParam());
};

TEST_P(CudaBackendTest, HostMemoryMayChangeAsSoonAsACopyToTheDeviceReturns) {
  CudaBackend backend({});
  // Together more than the ring holds; the longest alone is.
  const int64_t sizes[] = {1, 5'000'000, 3, 1'000'000, 1'000'001, 17, 900'000, 6'000'000, 2};
  std::vector<void*> on_device;
  int seed = 0;
  for (const int64_t size : sizes) {
    std::vector<int32_t> numbers = Numbers(size, seed++);
    const size_t num_bytes = numbers.size() * sizeof(int32_t);
    on_device.push_back(backend.Allocate(num_bytes));
    backend.CopyToDevice(on_device.back(), numbers.data(), num_bytes);
    std::memset(numbers.data(), 0xAB, num_bytes);
  }
  for (size_t i = 0; i < std::size(sizes); ++i) {
    std::vector<int32_t> found(static_cast<size_t>(sizes[i]));
    backend.CopyToHost(found.data(), on_device[i], found.size() * sizeof(int32_t));
    EXPECT_TRUE(found == Numbers(sizes[i], static_cast<int>(i))) << "copy " << i;
    backend.Free(on_device[i], found.size() * sizeof(int32_t));
  }
}

TEST_P(CudaBackendTest, ManySmallCopiesKeepTheirOrder) {
  CudaBackend backend({});
  void* const memory = backend.Allocate(sizeof(int32_t));
  for (int32_t value = 0; value < 3000; ++value) {
    backend.CopyToDevice(memory, &value, sizeof(value));
  }
  int32_t found = 0;
  backend.CopyToHost(&found, memory, sizeof(found));
  EXPECT_EQ(found, 2999);
  backend.Free(memory, sizeof(int32_t));
}

TEST_P(CudaBackendTest, CopiesToTheHostWaitForTheOperationsBeforeThem) {
  CudaBackend backend({});
  const DeviceMemory workspace(kWorkspaceBytes);
  backend.AttachWorkspace(workspace.data(), kWorkspaceBytes);
  auto* const x = static_cast<float*>(backend.Allocate(100 * sizeof(float)));
  backend.Fill(x, 100, 2);
  backend.Scale(x, 100, 3);
  std::vector<float> found(100);
  backend.CopyToHost(found.data(), x, 100 * sizeof(float));
  EXPECT_EQ(found, std::vector<float>(100, 6));
  backend.Free(x, 100 * sizeof(float));
}

TEST_P(CudaBackendTest, CopiesOfAnyLengthPassThroughPinnedMemoryInBothDirections) {
  CudaBackend backend({});
  const int64_t num_pageable = cuda_emulation::NumPageableCopies();
  for (const int64_t size : {1, 999'983, 1 << 20, 5'000'011}) {
    const std::vector<int32_t> numbers = Numbers(size, static_cast<int>(size));
    const size_t num_bytes = numbers.size() * sizeof(int32_t);
    void* const memory = backend.Allocate(num_bytes);
    backend.CopyToDevice(memory, numbers.data(), num_bytes);
    std::vector<int32_t> found(numbers.size());
    backend.CopyToHost(found.data(), memory, num_bytes);
    EXPECT_TRUE(found == numbers) << size;
    backend.Free(memory, num_bytes);
  }
  EXPECT_EQ(cuda_emulation::NumPageableCopies(), num_pageable);
}

TEST_P(CudaBackendTest, MarksAscendAndStartAnew) {
  CudaBackend backend({});
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(backend.Mark(), i);
    const std::vector<double> times_s = backend.TakeMarks();
    ASSERT_EQ(times_s.size(), 5U);
    EXPECT_EQ(times_s[0], 0);
    EXPECT_TRUE(std::is_sorted(times_s.begin(), times_s.end()));
  }
  EXPECT_TRUE(backend.TakeMarks().empty());
}

INSTANTIATE_TEST_SUITE_P(Orders, CudaBackendTest,
                         ::testing::Values(StreamOrder::kEager, StreamOrder::kAdversarial),
                         [](const auto& order) {
                           return order.param == StreamOrder::kEager ? "Eager" : "Adversarial";
                         });

TEST(CudaBackendErrorTest, AnOperationWithoutAWorkspaceIsABug) {
  CudaBackend backend({});
  auto* const x = static_cast<float*>(backend.Allocate(sizeof(float)));
  EXPECT_THROW(backend.Fill(x, 1, 0), base::CheckFailure);
  backend.Free(x, sizeof(float));
  const DeviceMemory workspace(kWorkspaceBytes);
  EXPECT_THROW(backend.AttachWorkspace(workspace.data(), kWorkspaceBytes - 1), base::CheckFailure);
  EXPECT_THROW(backend.AttachWorkspace(workspace.data() + 8, kWorkspaceBytes), base::CheckFailure);
}

TEST(CudaBackendErrorTest, FailuresNameTheCall) {
  try {
    const CudaBackend backend({.device = 99});
    ADD_FAILURE() << "there is no device 99";
  } catch (const base::SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("cudaSetDevice(99): cudaErrorInvalidDevice"),
              std::string::npos)
        << error.what();
  }
  CudaBackend backend({});
  try {
    backend.Allocate(size_t{1} << 45);
    ADD_FAILURE() << "there is not so much memory";
  } catch (const base::SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("cudaMalloc of 35184372088832 bytes on device 0"),
              std::string::npos)
        << error.what();
  }
  backend.Synchronize();  // what has been told does not come up again
}

// After a copy that failed the ring holds nothing of it.
TEST(CudaBackendErrorTest, ACopyThatFailsLeavesTheHostsMemoryAloneFromThenOn) {
  CudaBackend backend({});
  constexpr size_t kAllocated = 5 << 20;  // the first piece, and not all of the second
  void* const memory = backend.Allocate(kAllocated);
  const std::vector<std::byte> sent(kAllocated, std::byte{7});
  backend.CopyToDevice(memory, sent.data(), sent.size());
  std::vector<std::byte> untouched(2 * kAllocated);
  EXPECT_THROW(backend.CopyToHost(untouched.data(), memory, untouched.size()), base::SystemError);
  EXPECT_EQ(std::count(untouched.begin(), untouched.end(), std::byte{7}), 0);
  std::vector<std::byte> found(kAllocated);
  backend.CopyToHost(found.data(), memory, found.size());
  EXPECT_TRUE(found == sent);
  EXPECT_EQ(std::count(untouched.begin(), untouched.end(), std::byte{7}), 0);
  backend.Free(memory, kAllocated);
}

TEST(CudaBackendErrorTest, AFailureElsewhereComesOutOfTheNextWait) {
  CudaBackend backend({});
  backend.set_failure_check([] { throw base::CommError("a peer is lost"); });
  EXPECT_THROW(backend.Synchronize(), base::CommError);
  float value = 0;
  void* const memory = backend.Allocate(sizeof(value));
  EXPECT_THROW(backend.CopyToHost(&value, memory, sizeof(value)), base::CommError);
  backend.set_failure_check({});
  backend.Free(memory, sizeof(value));
}

}  // namespace
}  // namespace tessera::kernels::cuda
