// Launches of kernels, with the checks that CUDA makes; calls of host functions; occupancy.
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tests/cuda_emulation/execution/kernel_launch.h"
#include "tests/cuda_emulation/execution/symbols.h"
#include "tests/cuda_emulation/runtime/device.h"
#include "tests/cuda_emulation/runtime/device_memory.h"
#include "tests/cuda_emulation/runtime/errors.h"
#include "tests/cuda_emulation/runtime/fault.h"
#include "tests/cuda_emulation/runtime/launch_api.h"
#include "tests/cuda_emulation/runtime/runtime_api.h"
#include "tests/cuda_emulation/runtime/stream.h"

namespace tessera::cuda_emulation {
namespace {

// What cudaFuncGetAttributes claims of every kernel.
constexpr int kNumRegisters = 32;
constexpr int kBinaryVersion = 90;
constexpr int kBlocksPerMultiprocessor = 32;
constexpr size_t kReservedSharedPerBlock = 1024;

// How much dynamic shared memory a kernel may ask for, where it was raised.
class SharedMemoryLimits {
 public:
  static SharedMemoryLimits& Get() {
    static auto* limits = new SharedMemoryLimits;
    return *limits;
  }
  void Raise(const void* kernel, size_t num_bytes) {
    const std::lock_guard lock(mutex_);
    num_bytes_[kernel] = num_bytes;
  }
  size_t Of(const void* kernel) {
    const std::lock_guard lock(mutex_);
    const auto found = num_bytes_.find(kernel);
    return found != num_bytes_.end() ? std::max(found->second, kDefaultSharedBytes)
                                     : kDefaultSharedBytes;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, size_t> num_bytes_;
};

class KernelOperation final : public StreamOperation {
 public:
  KernelOperation(const cudaLaunchConfig_t& config, const KernelCall& kernel)
      : kernel_(kernel),
        launch_{.function = kernel.function,
                .grid = config.gridDim,
                .block = config.blockDim,
                .dynamic_bytes = config.dynamicSmemBytes,
                .call = kernel.call,
                .arguments = kernel.arguments.get()} {}

  bool TryRun() override {
    for (const void* pointer : kernel_.pointers) CheckPointer(pointer);
    RunKernel(launch_);
    const std::string stray = FindStrayWrites(/*freed_too=*/false);
    if (!stray.empty()) throw Fault(Describe() + ": " + stray);
    return true;
  }
  std::string Describe() const override { return "kernel " + FunctionName(kernel_.function); }
  std::unique_ptr<StreamOperation> Clone() const override {
    return std::make_unique<KernelOperation>(*this);
  }

 private:
  void CheckPointer(const void* pointer) const {
    if (pointer == nullptr) return;
    const MemoryKind kind = KindOf(pointer);
    if (kind == MemoryKind::kDevice || kind == MemoryKind::kPinned) return;
    throw Fault(Describe() + ": one of its arguments points to " + DescribeMemory(pointer, 1));
  }

  KernelCall kernel_;
  KernelLaunch launch_;
};

class HostFunctionOperation final : public StreamOperation {
 public:
  HostFunctionOperation(cudaHostFn_t function, void* user_data)
      : function_(function), user_data_(user_data) {}
  bool TryRun() override {
    function_(user_data_);
    return true;
  }
  std::string Describe() const override { return "cudaLaunchHostFunc"; }
  std::unique_ptr<StreamOperation> Clone() const override {
    return std::make_unique<HostFunctionOperation>(*this);
  }

 private:
  cudaHostFn_t function_;
  void* user_data_;
};

std::string SizeName(const dim3& size) {
  return std::to_string(size.x) + " x " + std::to_string(size.y) + " x " + std::to_string(size.z);
}

bool IsBlockAllowed(const dim3& block) {
  return block.x > 0 && block.y > 0 && block.z > 0 && block.x <= kMaxThreadsPerBlock &&
         block.y <= kMaxThreadsPerBlock && block.z <= kMaxBlockDepth &&
         uint64_t{block.x} * block.y * block.z <= kMaxThreadsPerBlock;
}

bool IsGridAllowed(const dim3& grid) {
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= kMaxGridWidth &&
         grid.y <= kMaxGridHeight && grid.z <= kMaxGridHeight;
}

}  // namespace

cudaError_t EnqueueKernel(const cudaLaunchConfig_t& config, const KernelCall& kernel) {
  const auto refuse = [&](cudaError_t error, const std::string& what) {
    return Refuse(error, "kernel " + FunctionName(kernel.function) + ": " + what);
  };
  if (config.numAttrs != 0) {
    return refuse(cudaErrorNotSupported, "launch attributes are not emulated");
  }
  if (!IsBlockAllowed(config.blockDim)) {
    return refuse(cudaErrorInvalidConfiguration, "block of " + SizeName(config.blockDim));
  }
  if (!IsGridAllowed(config.gridDim)) {
    return refuse(cudaErrorInvalidConfiguration, "grid of " + SizeName(config.gridDim));
  }
  const size_t limit = SharedMemoryLimits::Get().Of(kernel.function);
  if (config.dynamicSmemBytes > limit) {
    return refuse(cudaErrorInvalidValue, std::to_string(config.dynamicSmemBytes) +
                                             " bytes of dynamic shared memory, allowed are " +
                                             std::to_string(limit));
  }
  return Enqueue(config.stream, std::make_unique<KernelOperation>(config, kernel));
}

}  // namespace tessera::cuda_emulation

using namespace tessera::cuda_emulation;

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  const cudaError_t error = CheckStream(stream, "cudaLaunchHostFunc");
  if (error != cudaSuccess) return error;
  return Enqueue(stream, std::make_unique<HostFunctionOperation>(function, user_data));
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<size_t>(value) > kMaxSharedBytes) {
    return Refuse(cudaErrorInvalidValue, "cudaFuncSetAttribute: " + std::to_string(value) +
                                             " bytes of dynamic shared memory");
  }
  SharedMemoryLimits::Get().Raise(kernel, static_cast<size_t>(value));
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  *attributes = {
      .maxThreadsPerBlock = kMaxThreadsPerBlock,
      .numRegs = kNumRegisters,
      .ptxVersion = kBinaryVersion,
      .binaryVersion = kBinaryVersion,
      .maxDynamicSharedSizeBytes = static_cast<int>(SharedMemoryLimits::Get().Of(kernel))};
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks, const void*,
                                                          int block_size, size_t dynamic_bytes) {
  if (block_size <= 0 || block_size > static_cast<int>(kMaxThreadsPerBlock)) {
    return Refuse(cudaErrorInvalidValue, "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  }
  const int threads = (block_size + warpSize - 1) / warpSize * warpSize;
  const auto by_shared =
      static_cast<int>(kSharedPerMultiprocessor / (dynamic_bytes + kReservedSharedPerBlock));
  *num_blocks =
      std::min({kThreadsPerMultiprocessor / threads, by_shared, kBlocksPerMultiprocessor});
  return cudaSuccess;
}
