// The emulated GPUs: how many, what they claim to be, and which of them has failed.
#pragma once

#include <string>

#include "tests/cuda_emulation/runtime/runtime_types.h"

namespace tessera::cuda_emulation {

// Of an H100.
inline constexpr int kSharedPerMultiprocessor = 228 * 1024;  // bytes
inline constexpr int kThreadsPerMultiprocessor = 2048;

// The number of devices; the default is 8.
void SetDeviceCount(int count);
int GetDeviceCount();

// The multiprocessors that a device claims; the default is 4. Grids are often sized by it.
void SetNumMultiprocessors(int count);

// The device that cudaSetDevice chose for this thread.
int CurrentDevice();

// Marks a device as failed, as a crashed kernel does: calls that wait for it throw a Fault with
// this message once, all others return cudaErrorLaunchFailure.
void FailDevice(int device, const std::string& message);

// cudaSuccess for a healthy device. For a failed one: throws the Fault if nobody has seen it yet
// and no other exception is on its way; else returns cudaErrorLaunchFailure.
cudaError_t ThrowIfFailed(int device);

// The same without throwing.
bool HasFailed(int device);

// Makes all devices healthy again and forgets what is queued in any stream. For tests of faults.
void ResetDevices();

}  // namespace tessera::cuda_emulation
