#include "tests/cuda_emulation/runtime/device.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "tests/cuda_emulation/execution/kernel_launch.h"
#include "tests/cuda_emulation/runtime/device_memory.h"
#include "tests/cuda_emulation/runtime/errors.h"
#include "tests/cuda_emulation/runtime/fault.h"
#include "tests/cuda_emulation/runtime/runtime_api.h"
#include "tests/cuda_emulation/runtime/stream.h"

namespace tessera::cuda_emulation {
namespace {

// What CUDA states for a device of compute capability 9.0.
constexpr int kMajor = 9;
constexpr int kMinor = 0;
constexpr int kRegisters = 65536;
constexpr int kL2CacheBytes = 50 * 1024 * 1024;

struct Failure {
  std::string message;
  bool was_thrown = false;
};

struct Devices {
  std::mutex mutex;
  int count = 8;
  int num_multiprocessors = 4;
  std::map<int, Failure> failures;
};

Devices& GetDevices() {
  static Devices devices;
  return devices;
}

thread_local constinit int current_device = 0;

bool IsDevice(int device) { return device >= 0 && device < GetDeviceCount(); }

}  // namespace

void SetDeviceCount(int count) {
  const std::lock_guard lock(GetDevices().mutex);
  GetDevices().count = count;
}

int GetDeviceCount() {
  const std::lock_guard lock(GetDevices().mutex);
  return GetDevices().count;
}

void SetNumMultiprocessors(int count) {
  const std::lock_guard lock(GetDevices().mutex);
  GetDevices().num_multiprocessors = count;
}

int CurrentDevice() { return current_device; }

void FailDevice(int device, const std::string& message) {
  const std::lock_guard lock(GetDevices().mutex);
  GetDevices().failures.try_emplace(device, Failure{.message = message});
}

cudaError_t ThrowIfFailed(int device) {
  std::unique_lock lock(GetDevices().mutex);
  const auto found = GetDevices().failures.find(device);
  if (found == GetDevices().failures.end()) return cudaSuccess;
  Failure& failure = found->second;
  if (!failure.was_thrown && std::uncaught_exceptions() == 0) {
    failure.was_thrown = true;
    throw Fault(failure.message);
  }
  const std::string message = failure.message;
  lock.unlock();
  return Refuse(cudaErrorLaunchFailure, message);
}

bool HasFailed(int device) {
  const std::lock_guard lock(GetDevices().mutex);
  return GetDevices().failures.contains(device);
}

void ResetDevices() {
  DropAllOperations();
  const std::lock_guard lock(GetDevices().mutex);
  GetDevices().failures.clear();
}

}  // namespace tessera::cuda_emulation

using namespace tessera::cuda_emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = GetDeviceCount();
  return *count > 0 ? cudaSuccess : Refuse(cudaErrorNoDevice, "the device count is 0");
}

cudaError_t cudaSetDevice(int device) {
  if (!IsDevice(device)) {
    return Refuse(cudaErrorInvalidDevice, "cudaSetDevice(" + std::to_string(device) + ") of " +
                                              std::to_string(GetDeviceCount()) + " devices");
  }
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!IsDevice(device)) return Refuse(cudaErrorInvalidDevice, "cudaGetDeviceProperties");
  const std::lock_guard lock(GetDevices().mutex);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Emulated GPU");
  properties->totalGlobalMem = static_cast<size_t>(DeviceMemoryLimit());
  properties->sharedMemPerBlock = kDefaultSharedBytes;
  properties->regsPerBlock = kRegisters;
  properties->warpSize = warpSize;
  properties->maxThreadsPerBlock = kMaxThreadsPerBlock;
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] = i < 2 ? kMaxThreadsPerBlock : kMaxBlockDepth;
    properties->maxGridSize[i] = i < 1 ? kMaxGridWidth : kMaxGridHeight;
  }
  properties->major = kMajor;
  properties->minor = kMinor;
  properties->multiProcessorCount = GetDevices().num_multiprocessors;
  properties->l2CacheSize = kL2CacheBytes;
  properties->memoryBusWidth = 5120;
  properties->pciBusID = device;
  properties->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  properties->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  properties->regsPerMultiprocessor = kRegisters;
  properties->sharedMemPerBlockOptin = kMaxSharedBytes;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = kSharedPerMultiprocessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kMaxSharedBytes;
      break;
    default:
      return Refuse(cudaErrorInvalidValue, "cudaDeviceGetAttribute: not emulated");
  }
  return cudaSuccess;
}
