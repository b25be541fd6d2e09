// Copies and fills, now or in a stream.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/runtime/device.h"
#include "tests/cuda_emulation/runtime/device_memory.h"
#include "tests/cuda_emulation/runtime/errors.h"
#include "tests/cuda_emulation/runtime/fault.h"
#include "tests/cuda_emulation/runtime/runtime_api.h"
#include "tests/cuda_emulation/runtime/stream.h"

namespace tessera::cuda_emulation {
namespace {

std::atomic<int64_t> num_pageable_copies = 0;

bool IsHost(MemoryKind kind) {
  return kind == MemoryKind::kPageable || kind == MemoryKind::kPinned;
}

// Copies, or fills where there is no source. Pageable sources are kept from the time of the call.
class MemoryOperation final : public StreamOperation {
 public:
  MemoryOperation(const char* name, void* to, const void* from, int value, size_t num_bytes)
      : name_(name), to_(to), from_(from), value_(value), num_bytes_(num_bytes) {}

  void StageSource() {
    const auto* bytes = static_cast<const char*>(from_);
    staged_ = std::make_shared<const std::vector<char>>(bytes, bytes + num_bytes_);
  }

  bool TryRun() override {
    CheckLive(to_);
    if (from_ == nullptr) {
      std::memset(to_, value_, num_bytes_);
    } else if (staged_ != nullptr) {
      std::memcpy(to_, staged_->data(), num_bytes_);
    } else {
      CheckLive(from_);
      std::memmove(to_, from_, num_bytes_);
    }
    return true;
  }
  std::string Describe() const override {
    return std::string(name_) + " of " + std::to_string(num_bytes_) + " bytes";
  }
  std::unique_ptr<StreamOperation> Clone() const override {
    return std::make_unique<MemoryOperation>(*this);
  }

 private:
  void CheckLive(const void* pointer) const {
    if (KindOf(pointer) != MemoryKind::kFreed) return;
    throw Fault(Describe() + ": " + DescribeMemory(pointer, num_bytes_));
  }

  const char* name_;
  void* to_;
  const void* from_;
  int value_;
  size_t num_bytes_;
  std::shared_ptr<const std::vector<char>> staged_;
};

cudaError_t CheckRange(const void* pointer, size_t num_bytes, bool want_device, const char* what) {
  const MemoryKind kind = KindOf(pointer);
  const bool fits = want_device ? kind == MemoryKind::kDevice : IsHost(kind);
  if (fits && IsMemory(kind, pointer, num_bytes)) return cudaSuccess;
  return Refuse(cudaErrorInvalidValue, std::string(what) + ": expected " +
                                           (want_device ? "device" : "host") + " memory, found " +
                                           DescribeMemory(pointer, num_bytes));
}

cudaError_t CheckCopy(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind,
                      const char* call) {
  const std::string name = call;
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) {
    to_device = KindOf(to) == MemoryKind::kDevice;
    from_device = KindOf(from) == MemoryKind::kDevice;
  }
  const cudaError_t error = CheckRange(to, num_bytes, to_device, (name + ", destination").c_str());
  if (error != cudaSuccess) return error;
  return CheckRange(from, num_bytes, from_device, (name + ", source").c_str());
}

// On the legacy default stream: after the streams that block, heedless of those that do not.
cudaError_t RunNow(MemoryOperation operation, const char* call) {
  const cudaError_t error = RefuseWhileCapturing(call);
  if (error != cudaSuccess) return error;
  FinishBlockingStreams(CurrentDevice());
  if (HasFailed(CurrentDevice())) return ThrowIfFailed(CurrentDevice());
  operation.TryRun();
  return cudaSuccess;
}

}  // namespace

int64_t NumPageableCopies() { return num_pageable_copies; }

}  // namespace tessera::cuda_emulation

using namespace tessera::cuda_emulation;

cudaError_t cudaMemcpy(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind) {
  if (num_bytes == 0) return cudaSuccess;
  const cudaError_t error = CheckCopy(to, from, num_bytes, kind, "cudaMemcpy");
  if (error != cudaSuccess) return error;
  return RunNow(MemoryOperation("cudaMemcpy", to, from, 0, num_bytes), "cudaMemcpy");
}

cudaError_t cudaMemset(void* to, int value, size_t num_bytes) {
  if (num_bytes == 0) return cudaSuccess;
  const cudaError_t error = CheckRange(to, num_bytes, /*want_device=*/true, "cudaMemset");
  if (error != cudaSuccess) return error;
  return RunNow(MemoryOperation("cudaMemset", to, nullptr, value, num_bytes), "cudaMemset");
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  cudaError_t error = CheckStream(stream, "cudaMemcpyAsync");
  if (error != cudaSuccess || num_bytes == 0) return error;
  error = CheckCopy(to, from, num_bytes, kind, "cudaMemcpyAsync");
  if (error != cudaSuccess) return error;
  const bool from_pageable = KindOf(from) == MemoryKind::kPageable;
  const bool to_pageable = KindOf(to) == MemoryKind::kPageable;
  if (stream->capture != nullptr && (from_pageable || to_pageable)) {
    return Refuse(
        cudaErrorStreamCaptureUnsupported,
        "cudaMemcpyAsync: a graph would read or write pageable memory when it is replayed");
  }
  if (from_pageable || to_pageable) ++num_pageable_copies;
  auto operation = std::make_unique<MemoryOperation>("cudaMemcpyAsync", to, from, 0, num_bytes);
  if (from_pageable) operation->StageSource();
  error = Enqueue(stream, std::move(operation));
  if (error != cudaSuccess || !to_pageable) return error;
  return cudaStreamSynchronize(stream);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t num_bytes, cudaStream_t stream) {
  cudaError_t error = CheckStream(stream, "cudaMemsetAsync");
  if (error != cudaSuccess || num_bytes == 0) return error;
  error = CheckRange(to, num_bytes, /*want_device=*/true, "cudaMemsetAsync");
  if (error != cudaSuccess) return error;
  return Enqueue(
      stream, std::make_unique<MemoryOperation>("cudaMemsetAsync", to, nullptr, value, num_bytes));
}
