// What tests of emulated kernels share: device arrays, streams, one-line launches.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/execution/settings.h"
#include "tests/cuda_emulation/runtime/device.h"
#include "tests/cuda_emulation/runtime/fault.h"
#include "tests/cuda_emulation/runtime/stream_queue.h"

namespace tessera::cuda_emulation {

inline void Expect(cudaError_t error) { EXPECT_EQ(error, cudaSuccess) << cudaGetErrorName(error); }

// A stream that does not know of the default stream.
class TestStream {
 public:
  TestStream() { Expect(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_;
};

class TestEvent {
 public:
  TestEvent() { Expect(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~TestEvent() { cudaEventDestroy(event_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_;
};

// An array on the device; copies wait for nothing but themselves.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) { Expect(cudaMalloc(&data_, size * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { Set(values); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  size_t size() const { return size_; }
  void Set(const std::vector<T>& values) {
    Expect(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> Get() const {
    std::vector<T> values(size_);
    Expect(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

template <class... Parameters, class... Arguments>
cudaError_t Launch(cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                   size_t dynamic_bytes, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = dynamic_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// Launches a kernel and waits for it.
template <class... Parameters, class... Arguments>
void LaunchAndWait(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_bytes,
                   const Arguments&... arguments) {
  const TestStream stream;
  Expect(Launch(stream, kernel, grid, block, dynamic_bytes, arguments...));
  Expect(cudaStreamSynchronize(stream));
}

// Launches a kernel that is broken; returns what the emulation says of it.
template <class... Parameters, class... Arguments>
std::string FaultOf(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_bytes,
                    const Arguments&... arguments) {
  std::string message = "no fault";
  {
    const TestStream stream;
    Expect(Launch(stream, kernel, grid, block, dynamic_bytes, arguments...));
    try {
      cudaStreamSynchronize(stream);
    } catch (const Fault& fault) {
      message = fault.what();
    }
  }
  ResetDevices();
  return message;
}

// All orders in which threads can take turns, for kernels whose result must not depend on it.
inline std::vector<ExecutionSettings> AllOrders() {
  return {{.order = ThreadOrder::kForward},
          {.order = ThreadOrder::kReverse},
          {.order = ThreadOrder::kRandom, .seed = 1},
          {.order = ThreadOrder::kRandom, .seed = 2}};
}

// Sets how kernels run, and restores it.
class ScopedSettings {
 public:
  explicit ScopedSettings(const ExecutionSettings& settings) : before_(GetExecutionSettings()) {
    SetExecutionSettings(settings);
  }
  ~ScopedSettings() { SetExecutionSettings(before_); }
  ScopedSettings(const ScopedSettings&) = delete;
  ScopedSettings& operator=(const ScopedSettings&) = delete;

 private:
  ExecutionSettings before_;
};

}  // namespace tessera::cuda_emulation
