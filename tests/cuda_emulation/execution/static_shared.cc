#include "tests/cuda_emulation/execution/static_shared.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/cuda_emulation/execution/symbols.h"

namespace tessera::cuda_emulation {
namespace {

constexpr char kPoison = '\xff';
// After so many blocks a kernel has shown what it uses, but for what only some of its blocks use:
// that is poisoned before the first of them.
constexpr int kObservedBlocks = 2;

const std::vector<ThreadLocalVariable>& Arrays() {
  static const auto* arrays = new std::vector<ThreadLocalVariable>(FindLocalThreadLocals());
  return *arrays;
}

thread_local constinit bool is_poisoned = false;  // all arrays of this thread have been, once

// The arrays that kernels were seen to use, by kernel.
struct KnownUses {
  std::mutex mutex;
  std::map<const void*, std::vector<size_t>> arrays;
};
KnownUses& Known() {
  static auto* known = new KnownUses;
  return *known;
}

void Poison(char* block, const ThreadLocalVariable& array) {
  std::memset(block + array.offset, kPoison, array.num_bytes);
}

bool IsPoison(const char* block, const ThreadLocalVariable& array) {
  const char* begin = block + array.offset;
  return array.num_bytes == 0 ||
         (begin[0] == kPoison && std::memcmp(begin, begin + 1, array.num_bytes - 1) == 0);
}

}  // namespace

StaticSharedMemory::StaticSharedMemory(const void* kernel)
    : kernel_(kernel), block_(ThreadLocalBlock()) {
  if (!is_poisoned) {
    for (const ThreadLocalVariable& array : Arrays()) Poison(block_, array);
    is_poisoned = true;
  }
  const std::lock_guard lock(Known().mutex);
  const auto found = Known().arrays.find(kernel);
  if (found != Known().arrays.end()) used_ = found->second;
}

StaticSharedMemory::~StaticSharedMemory() {
  FindUsed();
  PoisonUsed();
  const std::lock_guard lock(Known().mutex);
  std::vector<size_t>& known = Known().arrays[kernel_];
  if (known.size() < used_.size()) known = used_;
}

void StaticSharedMemory::BeforeBlock() {
  if (num_blocks_ > 0 && num_blocks_ <= kObservedBlocks) FindUsed();
  if (num_blocks_ > 0) PoisonUsed();
  ++num_blocks_;
}

void StaticSharedMemory::FindUsed() {
  for (size_t i = 0; i < Arrays().size(); ++i) {
    if (!IsPoison(block_, Arrays()[i]) && std::find(used_.begin(), used_.end(), i) == used_.end()) {
      used_.push_back(i);
    }
  }
}

void StaticSharedMemory::PoisonUsed() {
  for (const size_t i : used_) Poison(block_, Arrays()[i]);
}

}  // namespace tessera::cuda_emulation
