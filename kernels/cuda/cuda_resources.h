// Handles of the CUDA runtime that release themselves. All belong to the device that is current
// when they are made.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::kernels::cuda {

// Makes `device` current for the calling thread. Throws base::SystemError naming the device.
void UseDevice(int device);

// Devices that this process sees; 0 where there is no driver.
int NumDevices();

// Name of a device. Throws base::SystemError where there is none such.
std::string DeviceName(int device);

struct DeviceMemoryUse {
  int64_t total_bytes = 0;
  int64_t used_bytes = 0;  // by all processes
};
// Of the device that is current.
DeviceMemoryUse CurrentDeviceMemory();

enum class StreamPriority { kNormal, kHigh };

// A stream of its own: it does not wait for the legacy default stream.
class Stream {
 public:
  explicit Stream(StreamPriority priority = StreamPriority::kNormal);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

enum class EventTiming { kOff, kOn };

// A mark in a stream.
class Event {
 public:
  explicit Event(EventTiming timing = EventTiming::kOff);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(cudaStream_t stream);
  // While the stream is captured: at each launch of the graph. Streams cannot wait for it there.
  void RecordAtEachLaunch(cudaStream_t stream);
  // What `stream` is given from now on runs after what was before the mark.
  void MakeWait(cudaStream_t stream) const;
  // Whether what was before the mark is done, or never will be: the next call of the stream's own
  // thread then tells why. True if never recorded.
  bool IsOver() const noexcept;
  // Blocks the calling thread until then.
  void Synchronize() const;
  // Seconds from `begin` to here, to about a microsecond. REQUIRES: both are timed and over.
  double SecondsSince(const Event& begin) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// Device memory outside the backend's: small, for a library's or a communicator's own needs.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t num_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

// Host memory that a GPU copies from and to by itself.
class PinnedMemory {
 public:
  explicit PinnedMemory(size_t num_bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t num_bytes() const { return num_bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace tessera::kernels::cuda
