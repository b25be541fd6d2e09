// Helpers of the tests of CUDA kernels: device arrays of the floating-point types, a stream to
// launch on, comparison with a reference in double, and every run in several orders of the threads.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/launchers.h"
#include "tests/cuda_emulation/execution/settings.h"
#include "tests/kernels/reference.h"

namespace tessera::kernels::cuda::testing {

using base::DType;
using reference::Doubles;

inline const auto kFloatTypes =
    ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16);

// For INSTANTIATE_TEST_SUITE_P over kFloatTypes.
inline std::string TypeName(const ::testing::TestParamInfo<DType>& info) {
  return std::string(base::ToString(info.param));
}

// The largest ||found - expected|| / ||expected|| of a kernel that sums in fp32 and rounds its
// result once or twice: some units of the type's last place.
inline double ToleranceOf(DType dtype) {
  return dtype == DType::kFloat32 ? 1e-5 : dtype == DType::kBFloat16 ? 1e-2 : 2e-3;
}

inline Doubles RandomDoubles(int64_t n, uint32_t seed, double low = -1, double high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  Doubles values(n);
  for (double& value : values) value = uniform(generator);
  return values;
}

// Device memory that begins `offset` elements behind a multiple of 256 bytes.
template <typename T>
class DeviceMemory {
 public:
  explicit DeviceMemory(const std::vector<T>& values, int64_t offset = 0)
      : offset_(offset), size_(static_cast<int64_t>(values.size())) {
    CheckCuda(cudaMalloc(&memory_, std::max<size_t>(1, (size_ + offset) * sizeof(T))),
              "cudaMalloc");
    CheckCuda(
        cudaMemcpy(memory_ + offset, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }
  ~DeviceMemory() { cudaFree(memory_); }
  DeviceMemory(DeviceMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        offset_(other.offset_),
        size_(other.size_) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  T* data() const { return memory_ + offset_; }
  // Waits for all work of the device.
  std::vector<T> Values() const {
    CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::vector<T> values(size_);
    CheckCuda(cudaMemcpy(values.data(), data(), size_ * sizeof(T), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    return values;
  }

 private:
  T* memory_ = nullptr;
  int64_t offset_, size_;
};

inline uint32_t BitsOf(DType dtype, double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits = 0;
  if (dtype == DType::kFloat32) {
    std::memcpy(&bits, &single, sizeof(single));
  } else if (dtype == DType::kBFloat16) {
    const __nv_bfloat16 rounded = __float2bfloat16_rn(single);
    std::memcpy(&bits, &rounded, sizeof(rounded));
  } else {
    const __half rounded = __float2half_rn(single);
    std::memcpy(&bits, &rounded, sizeof(rounded));
  }
  return bits;
}

inline double FromBits(DType dtype, const void* bits) {
  if (dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, bits, sizeof(value));
    return value;
  }
  if (dtype == DType::kBFloat16) {
    __nv_bfloat16 value;
    std::memcpy(&value, bits, sizeof(value));
    return __bfloat162float(value);
  }
  __half value;
  std::memcpy(&value, bits, sizeof(value));
  return __half2float(value);
}

// The values that remain of `values` in a type: what references compute on.
inline Doubles Rounded(DType dtype, Doubles values) {
  for (double& value : values) {
    const uint32_t bits = BitsOf(dtype, value);
    value = FromBits(dtype, &bits);
  }
  return values;
}

// An array of fp32, bf16 or fp16 on the device.
class DeviceArray {
 public:
  DeviceArray(DType dtype, const Doubles& values, int64_t offset = 0)
      : dtype_(dtype), memory_(Encode(dtype, values), offset * base::SizeBytes(dtype)) {}
  // All NaN: what a kernel must not read, and must write.
  static DeviceArray Poison(DType dtype, int64_t n, int64_t offset = 0) {
    return {dtype, Doubles(n, std::nan("")), offset};
  }

  operator Array() const { return {memory_.data(), dtype_}; }       // NOLINT
  operator ConstArray() const { return {memory_.data(), dtype_}; }  // NOLINT
  Array At(int64_t element) const { return Array(*this).At(element); }

  // Waits for all work of the device.
  Doubles Values() const {
    const std::vector<std::byte> bytes = memory_.Values();
    const int64_t size = base::SizeBytes(dtype_);
    Doubles values(bytes.size() / size);
    for (size_t i = 0; i < values.size(); ++i) values[i] = FromBits(dtype_, &bytes[i * size]);
    return values;
  }

 private:
  static std::vector<std::byte> Encode(DType dtype, const Doubles& values) {
    const int64_t size = base::SizeBytes(dtype);
    std::vector<std::byte> bytes(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t bits = BitsOf(dtype, values[i]);
      std::memcpy(&bytes[i * size], &bits, size);  // the low bytes come first
    }
    return bytes;
  }

  DType dtype_;
  DeviceMemory<std::byte> memory_;
};

inline DeviceArray Floats(const Doubles& values) { return {DType::kFloat32, values}; }
inline DeviceArray PoisonFloats(int64_t n) { return DeviceArray::Poison(DType::kFloat32, n); }

// int32 on the device.
class DeviceInts {
 public:
  explicit DeviceInts(const std::vector<int32_t>& values) : memory_(values) {}
  operator ConstArray() const { return {memory_.data(), DType::kInt32}; }  // NOLINT

 private:
  DeviceMemory<int32_t> memory_;
};

// A stream with scratch, on a device of few multiprocessors: so that blocks take several turns.
class TestStream {
 public:
  explicit TestStream(int64_t scratch_bytes = kLeastScratchBytes) {
    CheckCuda(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking),
              "cudaStreamCreateWithFlags");
    CheckCuda(cudaMalloc(&context_.scratch, scratch_bytes), "cudaMalloc");
    context_.scratch_bytes = scratch_bytes;
    context_.num_multiprocessors = 2;
  }
  ~TestStream() {
    cudaFree(context_.scratch);
    cudaStreamDestroy(context_.stream);
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  operator const LaunchContext&() const { return context_; }  // NOLINT

 private:
  LaunchContext context_;
};

// What a test of kernels starts from, for each type.
class KernelTest : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  double tolerance() const { return ToleranceOf(dtype()); }
  const LaunchContext& stream() const { return stream_; }
  // Random values that the type holds.
  Doubles Random(int64_t n, uint32_t seed, double low = -1, double high = 1) const {
    return Rounded(dtype(), RandomDoubles(n, seed, low, high));
  }
  DeviceArray Upload(const Doubles& values, int64_t offset = 0) const {
    return {dtype(), values, offset};
  }
  DeviceArray Poison(int64_t n, int64_t offset = 0) const {
    return DeviceArray::Poison(dtype(), n, offset);
  }

 private:
  TestStream stream_;
};

// ||found - expected|| <= tolerance * ||expected||; a NaN fails.
inline void ExpectClose(const Doubles& found, const Doubles& expected, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double error = 0;
  double scale = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    scale += expected[i] * expected[i];
    if (std::isfinite(found[i]) && std::isfinite(expected[i])) continue;
    FAIL() << what << " at " << i << " of " << found.size() << ": found " << found[i]
           << ", expected " << expected[i];
  }
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(scale)) << what;
}

// Calls run(), which returns what a kernel left behind as a list of arrays, with the threads of
// its blocks in several orders; all must give the same bits. Returns them.
template <typename Run>
std::vector<Doubles> InAllOrders(const Run& run) {
  using cuda_emulation::ThreadOrder;
  const struct Restoring {
    ~Restoring() { cuda_emulation::SetExecutionSettings(before); }
    const cuda_emulation::ExecutionSettings before = cuda_emulation::GetExecutionSettings();
  } restoring;
  std::vector<Doubles> first;
  for (const ThreadOrder order :
       {ThreadOrder::kForward, ThreadOrder::kReverse, ThreadOrder::kRandom}) {
    auto settings = restoring.before;
    settings.order = order;
    cuda_emulation::SetExecutionSettings(settings);
    std::vector<Doubles> found = run();
    if (first.empty()) first = found;
    EXPECT_EQ(first.size(), found.size());
    for (size_t i = 0; i < first.size(); ++i) {
      const bool is_same = first[i].size() == found[i].size() &&
                           (first[i].empty() || std::memcmp(first[i].data(), found[i].data(),
                                                            first[i].size() * sizeof(double)) == 0);
      EXPECT_TRUE(is_same) << "array " << i << " in order " << static_cast<int>(order);
    }
  }
  return first;
}

}  // namespace tessera::kernels::cuda::testing
