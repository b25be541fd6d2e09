// Memory of the emulated devices. Every allocation is poisoned with NaN (0xFF bytes) when it is
// made and when it is freed, lies between guard zones that are checked, and stays in quarantine for
// a while.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::cuda_emulation {

enum class MemoryKind {
  kPageable,  // anything the emulation did not allocate
  kPinned,    // cudaMallocHost
  kDevice,    // cudaMalloc
  kFreed,     // was one of these, and is in quarantine
};

// What the byte at `pointer` is.
MemoryKind KindOf(const void* pointer);

// Whether all of [pointer, pointer + num_bytes) lies inside one live device allocation.
bool IsDeviceMemory(const void* pointer, size_t num_bytes);

// Whether all of [pointer, pointer + num_bytes) is of this kind, and of one allocation.
bool IsMemory(MemoryKind kind, const void* pointer, size_t num_bytes);

// "bytes 16 to 1040 of an allocation of 1000 bytes on device 0": for messages.
std::string DescribeMemory(const void* pointer, size_t num_bytes);

// Memory of every device, for tests that run out of it. The default is 2 GiB.
void SetDeviceMemoryLimit(int64_t total_bytes);
int64_t DeviceMemoryLimit();

// Copies by cudaMemcpyAsync from or to pageable memory so far: on a GPU they stop the host.
int64_t NumPageableCopies();

// Looks at the guard zones of all allocations, and if asked at the poison of those freed last.
// Returns what was overwritten, for a message, and restores it; empty where all is well. A build
// with the address sanitizer stops at the access itself instead.
std::string FindStrayWrites(bool freed_too);

}  // namespace tessera::cuda_emulation
