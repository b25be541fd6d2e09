#include "tests/cuda_emulation/execution/fiber.h"

#include <sys/mman.h>

#include <new>

namespace tessera::cuda_emulation {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kStackBytes = kAddressSanitizer ? 256 * 1024 : 64 * 1024;
constexpr size_t kCacheLineBytes = 64;
constexpr size_t kLinesPerColor = 5;  // odd, and about what a waiting thread touches
constexpr size_t kNumColors = 64;

}  // namespace

FiberStack::FiberStack() {
  void* memory = mmap(nullptr, kPageBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  mprotect(memory_, kPageBytes, PROT_NONE);
}

FiberStack::~FiberStack() {
  UnpoisonForSanitizer(bottom(), kStackBytes);
  munmap(memory_, kPageBytes + kStackBytes);
}

char* FiberStack::bottom() const { return memory_ + kPageBytes; }
char* FiberStack::top() const { return memory_ + kPageBytes + kStackBytes; }

Fiber::Fiber(const FiberStack& stack, size_t color, void (*entry)()) : entry_(entry) {
  char* top = stack.top() - color % kNumColors * kLinesPerColor * kCacheLineBytes;
  stack_bottom_ = stack.bottom();
  stack_bytes_ = static_cast<size_t>(top - stack.bottom());
  suspended_ = PrepareStack(stack.bottom(), top);
}

void EnterStack(void* payload) {
  Fiber& entered = *static_cast<Fiber*>(payload);
  Fiber::Arrive(*entered.left_, entered);
  entered.entry_();
}

}  // namespace tessera::cuda_emulation
