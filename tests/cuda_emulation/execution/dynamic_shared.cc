#include "tests/cuda_emulation/execution/dynamic_shared.h"

#include <algorithm>
#include <cstring>

#include "tests/cuda_emulation/device/vector_types.h"
#include "tests/cuda_emulation/execution/kernel_launch.h"
#include "tests/cuda_emulation/execution/sanitizer.h"

namespace {

constexpr size_t kSharedGuardBytes = 512;
constexpr size_t kCapacityBytes = tessera::cuda_emulation::kMaxSharedBytes + kSharedGuardBytes;

}  // namespace

// Kernels declare it as `extern __shared__ uint4 dynamic_shared[]`.
alignas(1024) extern thread_local uint4 dynamic_shared[];
alignas(1024) thread_local uint4 dynamic_shared[kCapacityBytes / sizeof(uint4)];

namespace tessera::cuda_emulation {
namespace {

constexpr unsigned char kSharedPoison = 0xff;
constexpr unsigned char kSharedGuard = 0xa5;

unsigned char* DynamicShared() { return reinterpret_cast<unsigned char*>(dynamic_shared); }

}  // namespace

void ReserveDynamicShared(size_t num_bytes) {
  UnpoisonForSanitizer(DynamicShared(), kCapacityBytes);
  std::memset(DynamicShared() + num_bytes, kSharedGuard, kSharedGuardBytes);
  PoisonForSanitizer(DynamicShared() + num_bytes, kCapacityBytes - num_bytes);
}

void PoisonDynamicShared(size_t num_bytes) {
  std::memset(DynamicShared(), kSharedPoison, num_bytes);
}

bool IsDynamicSharedIntact(size_t num_bytes) {
  if (kAddressSanitizer) return true;  // it stops the program at the access itself
  const unsigned char* guard = DynamicShared() + num_bytes;
  return std::all_of(guard, guard + kSharedGuardBytes,
                     [](unsigned char byte) { return byte == kSharedGuard; });
}

}  // namespace tessera::cuda_emulation
