#include "tests/cuda_emulation/execution/static_shared.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/cuda_emulation/execution/symbols.h"

namespace tessera::cuda_emulation {
namespace {

constexpr char kStaticPoison = '\xff';
// After so many blocks, and launches, a kernel has shown what it uses. What it uses later only is
// found by a glance at the ends of the arrays.
constexpr int kObservedBlocks = 2;
constexpr int kObservedLaunches = 2;
constexpr size_t kGlanceBytes = 32;

const std::vector<ThreadLocalVariable>& Arrays() {
  static const auto* arrays = new std::vector<ThreadLocalVariable>(FindLocalThreadLocals());
  return *arrays;
}

thread_local constinit bool is_poisoned = false;  // all arrays of this thread have been, once

// What kernels were seen to use, by kernel.
struct KnownUses {
  struct Use {
    std::vector<size_t> arrays;
    int num_launches = 0;
  };
  std::mutex mutex;
  std::map<const void*, Use> kernels;
};
KnownUses& Known() {
  static auto* known = new KnownUses;
  return *known;
}

void Poison(char* block, const ThreadLocalVariable& array) {
  std::memset(block + array.offset, kStaticPoison, array.num_bytes);
}

bool IsPoison(const char* begin, size_t num_bytes) {
  return num_bytes == 0 ||
         (begin[0] == kStaticPoison && std::memcmp(begin, begin + 1, num_bytes - 1) == 0);
}

bool IsPoison(const char* block, const ThreadLocalVariable& array, bool glance) {
  const char* begin = block + array.offset;
  if (!glance || array.num_bytes <= 2 * kGlanceBytes) return IsPoison(begin, array.num_bytes);
  return IsPoison(begin, kGlanceBytes) &&
         IsPoison(begin + array.num_bytes - kGlanceBytes, kGlanceBytes);
}

}  // namespace

StaticSharedMemory::StaticSharedMemory(const void* kernel)
    : kernel_(kernel), block_(ThreadLocalBlock()) {
  if (!is_poisoned) {
    for (const ThreadLocalVariable& array : Arrays()) Poison(block_, array);
    is_poisoned = true;
  }
  const std::lock_guard lock(Known().mutex);
  KnownUses::Use& known = Known().kernels[kernel];
  used_ = known.arrays;
  is_known_ = known.num_launches++ >= kObservedLaunches;
}

StaticSharedMemory::~StaticSharedMemory() {
  FindUsed();
  PoisonUsed();
  const std::lock_guard lock(Known().mutex);
  KnownUses::Use& known = Known().kernels[kernel_];
  if (known.arrays.size() < used_.size()) known.arrays = used_;
}

void StaticSharedMemory::BeforeBlock() {
  if (!is_known_ && num_blocks_ > 0 && num_blocks_ <= kObservedBlocks) FindUsed();
  if (num_blocks_ > 0) PoisonUsed();
  ++num_blocks_;
}

void StaticSharedMemory::FindUsed() {
  for (size_t i = 0; i < Arrays().size(); ++i) {
    if (!IsPoison(block_, Arrays()[i], is_known_) &&
        std::find(used_.begin(), used_.end(), i) == used_.end()) {
      used_.push_back(i);
    }
  }
}

void StaticSharedMemory::PoisonUsed() {
  for (const size_t i : used_) Poison(block_, Arrays()[i]);
}

}  // namespace tessera::cuda_emulation
