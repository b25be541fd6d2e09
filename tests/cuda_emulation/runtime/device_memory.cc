#include "tests/cuda_emulation/runtime/device_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "tests/cuda_emulation/execution/sanitizer.h"
#include "tests/cuda_emulation/runtime/device.h"
#include "tests/cuda_emulation/runtime/errors.h"
#include "tests/cuda_emulation/runtime/runtime_api.h"
#include "tests/cuda_emulation/runtime/stream.h"

namespace tessera::cuda_emulation {
namespace {

constexpr size_t kAlignment = 256;  // what cudaMalloc promises
constexpr size_t kGuardBytes = 256;
constexpr unsigned char kPoison = 0xff;
constexpr unsigned char kGuard = 0xa5;
constexpr size_t kQuarantineBytes = 64 << 20;
// Of the blocks freed last, so many are looked through, so far, for writes that came too late.
constexpr size_t kNumCheckedFreed = 32;
constexpr size_t kCheckedFreedBytes = 4 << 10;

struct Allocation {
  unsigned char* data;
  size_t num_bytes;
  MemoryKind kind;
  int device;

  unsigned char* base() const { return data - kGuardBytes; }
  size_t padded_bytes() const { return (num_bytes + kAlignment - 1) / kAlignment * kAlignment; }
};

void Release(const Allocation& allocation) {
  UnpoisonForSanitizer(allocation.base(), allocation.padded_bytes() + 2 * kGuardBytes);
  std::free(allocation.base());
}

struct Memory {
  // What was never freed is left to be found as a leak.
  ~Memory() {
    for (const auto& [address, allocation] : freed) Release(allocation);
  }

  std::shared_mutex mutex;
  std::map<uintptr_t, Allocation> allocations;  // by address
  std::map<uintptr_t, Allocation> freed;        // by address: those in quarantine
  std::deque<uintptr_t> quarantine;             // their addresses, the oldest first
  size_t quarantine_bytes = 0;
  std::map<int, int64_t> used_bytes;  // by device
  int64_t limit_bytes = int64_t{2} << 30;
};

Memory& GetMemory() {
  static Memory memory;
  return memory;
}

void SetGuards(const Allocation& allocation) {
  unsigned char* end = allocation.data + allocation.num_bytes;
  const size_t end_bytes = allocation.padded_bytes() - allocation.num_bytes + kGuardBytes;
  std::memset(allocation.base(), kGuard, kGuardBytes);
  std::memset(end, kGuard, end_bytes);
  PoisonForSanitizer(allocation.base(), kGuardBytes);
  PoisonForSanitizer(end, end_bytes);
}

bool IsFilled(const unsigned char* begin, size_t num_bytes, unsigned char value) {
  return num_bytes == 0 || (begin[0] == value && std::memcmp(begin, begin + 1, num_bytes - 1) == 0);
}

std::string NameOf(const Allocation& allocation) {
  return "an allocation of " + std::to_string(allocation.num_bytes) + " bytes" +
         (allocation.kind == MemoryKind::kPinned
              ? " of pinned memory"
              : " on device " + std::to_string(allocation.device));
}

// What was written around or, if it is freed, into an allocation. Empty where nothing was.
std::string StrayWriteOf(const Allocation& allocation) {
  if (allocation.kind == MemoryKind::kFreed) {
    const size_t checked = std::min(allocation.num_bytes, kCheckedFreedBytes);
    return IsFilled(allocation.data, checked, kPoison)
               ? ""
               : NameOf(allocation) + " was written to after it was freed";
  }
  if (!IsFilled(allocation.base(), kGuardBytes, kGuard)) {
    return "the bytes before " + NameOf(allocation) + " were written to";
  }
  if (!IsFilled(allocation.data + allocation.num_bytes, kGuardBytes, kGuard)) {
    return "the bytes after " + NameOf(allocation) + " were written to";
  }
  return "";
}

// The allocation that holds the address, or ends there; null where there is none.
const Allocation* FindIn(const std::map<uintptr_t, Allocation>& allocations, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  const Allocation& allocation = std::prev(after)->second;
  return address <= std::prev(after)->first + allocation.num_bytes ? &allocation : nullptr;
}

const Allocation* FindAllocation(const Memory& memory, const void* pointer) {
  const Allocation* live = FindIn(memory.allocations, pointer);
  return live != nullptr ? live : FindIn(memory.freed, pointer);
}

cudaError_t Allocate(void** pointer, size_t num_bytes, MemoryKind kind) {
  Memory& memory = GetMemory();
  const std::unique_lock lock(memory.mutex);
  Allocation allocation{.num_bytes = num_bytes, .kind = kind, .device = CurrentDevice()};
  int64_t& used = memory.used_bytes[allocation.device];
  if (kind == MemoryKind::kDevice) {
    if (used + static_cast<int64_t>(num_bytes) > memory.limit_bytes) {
      return Refuse(cudaErrorMemoryAllocation, std::to_string(num_bytes) + " bytes wanted, " +
                                                   std::to_string(memory.limit_bytes - used) +
                                                   " free on device " +
                                                   std::to_string(allocation.device));
    }
    used += static_cast<int64_t>(num_bytes);
  }
  void* base = std::aligned_alloc(kAlignment, allocation.padded_bytes() + 2 * kGuardBytes);
  if (base == nullptr) return Refuse(cudaErrorMemoryAllocation, "the host is out of memory");
  allocation.data = static_cast<unsigned char*>(base) + kGuardBytes;
  std::memset(allocation.data, kPoison, num_bytes);
  SetGuards(allocation);
  memory.allocations[reinterpret_cast<uintptr_t>(allocation.data)] = allocation;
  *pointer = allocation.data;
  return cudaSuccess;
}

// What was written around a live allocation or into one of those freed last. Empty where nothing
// was.
std::string FirstStrayWrite(const Memory& memory, bool freed_too) {
  std::string found;
  for (const auto& [address, allocation] : memory.allocations) {
    if (!(found = StrayWriteOf(allocation)).empty()) return found;
  }
  const size_t num_checked = freed_too ? std::min(memory.quarantine.size(), kNumCheckedFreed) : 0;
  for (size_t i = 0; i < num_checked; ++i) {
    const uintptr_t address = memory.quarantine[memory.quarantine.size() - 1 - i];
    if (!(found = StrayWriteOf(memory.freed.at(address))).empty()) return found;
  }
  return found;
}

void Quarantine(Memory& memory, Allocation allocation) {
  allocation.kind = MemoryKind::kFreed;
  std::memset(allocation.data, kPoison, allocation.num_bytes);
  PoisonForSanitizer(allocation.data, allocation.num_bytes);
  const auto address = reinterpret_cast<uintptr_t>(allocation.data);
  memory.freed[address] = allocation;
  memory.quarantine.push_back(address);
  memory.quarantine_bytes += allocation.num_bytes;
  while (memory.quarantine_bytes > kQuarantineBytes) {
    const auto oldest = memory.freed.find(memory.quarantine.front());
    memory.quarantine.pop_front();
    memory.quarantine_bytes -= oldest->second.num_bytes;
    Release(oldest->second);
    memory.freed.erase(oldest);
  }
}

// REQUIRES: nothing in a stream uses the memory any more.
cudaError_t Free(void* pointer, MemoryKind kind, const char* call) {
  Memory& memory = GetMemory();
  const std::unique_lock lock(memory.mutex);
  const auto found = memory.allocations.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == memory.allocations.end() || found->second.kind != kind) {
    return Refuse(cudaErrorInvalidValue,
                  std::string(call) + ": not what it allocated, or freed before");
  }
  Allocation allocation = found->second;
  memory.allocations.erase(found);
  if (kind == MemoryKind::kDevice) {
    memory.used_bytes[allocation.device] -= static_cast<int64_t>(allocation.num_bytes);
  }
  Quarantine(memory, allocation);
  return cudaSuccess;
}

}  // namespace

MemoryKind KindOf(const void* pointer) {
  Memory& memory = GetMemory();
  const std::shared_lock lock(memory.mutex);
  const Allocation* allocation = FindAllocation(memory, pointer);
  return allocation != nullptr ? allocation->kind : MemoryKind::kPageable;
}

bool IsMemory(MemoryKind kind, const void* pointer, size_t num_bytes) {
  Memory& memory = GetMemory();
  const std::shared_lock lock(memory.mutex);
  const Allocation* allocation = FindAllocation(memory, pointer);
  if (allocation == nullptr) return kind == MemoryKind::kPageable;
  const auto* begin = static_cast<const unsigned char*>(pointer);
  return allocation->kind == kind && begin + num_bytes <= allocation->data + allocation->num_bytes;
}

bool IsDeviceMemory(const void* pointer, size_t num_bytes) {
  return IsMemory(MemoryKind::kDevice, pointer, num_bytes);
}

std::string DescribeMemory(const void* pointer, size_t num_bytes) {
  Memory& memory = GetMemory();
  const std::shared_lock lock(memory.mutex);
  const Allocation* allocation = FindAllocation(memory, pointer);
  if (allocation == nullptr) return std::to_string(num_bytes) + " bytes of pageable host memory";
  const auto offset =
      static_cast<size_t>(static_cast<const unsigned char*>(pointer) - allocation->data);
  return "bytes " + std::to_string(offset) + " to " + std::to_string(offset + num_bytes) + " of " +
         NameOf(*allocation) + (allocation->kind == MemoryKind::kFreed ? ", which was freed" : "");
}

void SetDeviceMemoryLimit(int64_t total_bytes) {
  const std::unique_lock lock(GetMemory().mutex);
  GetMemory().limit_bytes = total_bytes;
}

int64_t DeviceMemoryLimit() {
  const std::shared_lock lock(GetMemory().mutex);
  return GetMemory().limit_bytes;
}

std::string FindStrayWrites(bool freed_too) {
  if (kAddressSanitizer) return "";
  Memory& memory = GetMemory();
  std::string found;
  {
    const std::shared_lock lock(memory.mutex);
    found = FirstStrayWrite(memory, freed_too);
  }
  if (found.empty()) return found;
  const std::unique_lock lock(memory.mutex);
  for (const auto& [address, allocation] : memory.allocations) SetGuards(allocation);
  for (const auto& [address, allocation] : memory.freed) {
    std::memset(allocation.data, kPoison, allocation.num_bytes);
  }
  return found;
}

}  // namespace tessera::cuda_emulation

using namespace tessera::cuda_emulation;

cudaError_t cudaMalloc(void** pointer, size_t num_bytes) {
  *pointer = nullptr;
  const cudaError_t error = RefuseWhileCapturing("cudaMalloc");
  if (error != cudaSuccess || num_bytes == 0) return error;
  return Allocate(pointer, num_bytes, MemoryKind::kDevice);
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  cudaError_t error = RefuseWhileCapturing("cudaFree");
  if (error != cudaSuccess) return error;
  FinishDevice(CurrentDevice());
  return Free(pointer, MemoryKind::kDevice, "cudaFree");
}

cudaError_t cudaMallocHost(void** pointer, size_t num_bytes) {
  *pointer = nullptr;
  const cudaError_t error = RefuseWhileCapturing("cudaMallocHost");
  if (error != cudaSuccess || num_bytes == 0) return error;
  return Allocate(pointer, num_bytes, MemoryKind::kPinned);
}

cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const cudaError_t error = RefuseWhileCapturing("cudaFreeHost");
  if (error != cudaSuccess) return error;
  FinishDevice(CurrentDevice());
  return Free(pointer, MemoryKind::kPinned, "cudaFreeHost");
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  Memory& memory = GetMemory();
  const std::unique_lock lock(memory.mutex);
  *total_bytes = static_cast<size_t>(memory.limit_bytes);
  *free_bytes = static_cast<size_t>(memory.limit_bytes - memory.used_bytes[CurrentDevice()]);
  return cudaSuccess;
}
