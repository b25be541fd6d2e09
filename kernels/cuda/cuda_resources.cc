#include "kernels/cuda/cuda_resources.h"

#include "kernels/cuda/cuda_error.h"

namespace tessera::kernels::cuda {

void UseDevice(int device) {
  CheckCuda(cudaSetDevice(device), base::Concat("cudaSetDevice(", device, ")").c_str());
}

int NumDevices() {
  int num_devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&num_devices);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    return 0;
  }
  CheckCuda(status, "cudaGetDeviceCount");
  return num_devices;
}

std::string DeviceName(int device) {
  cudaDeviceProp properties = {};
  CheckCuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return properties.name;
}

DeviceMemoryUse CurrentDeviceMemory() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  CheckCuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return {.total_bytes = static_cast<int64_t>(total_bytes),
          .used_bytes = static_cast<int64_t>(total_bytes - free_bytes)};
}

Stream::Stream(StreamPriority priority) {
  int lowest = 0;
  int highest = 0;
  CheckCuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
            "cudaDeviceGetStreamPriorityRange");
  CheckCuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                         priority == StreamPriority::kHigh ? highest : lowest),
            "cudaStreamCreateWithPriority");
}

// Destructors ignore what CUDA says: they run while other errors unwind.
Stream::~Stream() { cudaStreamDestroy(stream_); }

Event::Event(EventTiming timing) {
  CheckCuda(cudaEventCreateWithFlags(
                &event_, timing == EventTiming::kOn ? cudaEventDefault : cudaEventDisableTiming),
            "cudaEventCreateWithFlags");
}

Event::~Event() { cudaEventDestroy(event_); }

void Event::Record(cudaStream_t stream) {
  CheckCuda(cudaEventRecord(event_, stream), "cudaEventRecord");
}

void Event::RecordAtEachLaunch(cudaStream_t stream) {
  CheckCuda(cudaEventRecordWithFlags(event_, stream, cudaEventRecordExternal),
            "cudaEventRecordWithFlags");
}

void Event::MakeWait(cudaStream_t stream) const {
  CheckCuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

bool Event::IsOver() const noexcept { return cudaEventQuery(event_) != cudaErrorNotReady; }

void Event::Synchronize() const { CheckCuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

double Event::SecondsSince(const Event& begin) const {
  constexpr double kSecondsPerMillisecond = 1e-3;
  float milliseconds = 0;
  CheckCuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
  return milliseconds * kSecondsPerMillisecond;
}

DeviceMemory::DeviceMemory(size_t num_bytes) {
  void* memory = nullptr;
  CheckCuda(cudaMalloc(&memory, num_bytes),
            base::Concat("cudaMalloc of ", num_bytes, " bytes").c_str());
  data_ = static_cast<std::byte*>(memory);
}

DeviceMemory::~DeviceMemory() { cudaFree(data_); }

PinnedMemory::PinnedMemory(size_t num_bytes) : num_bytes_(num_bytes) {
  void* memory = nullptr;
  CheckCuda(cudaMallocHost(&memory, num_bytes),
            base::Concat("cudaMallocHost of ", num_bytes, " bytes").c_str());
  data_ = static_cast<std::byte*>(memory);
}

PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

}  // namespace tessera::kernels::cuda
