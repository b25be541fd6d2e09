// A number in a file must not become memory before it is held against the file: one allocation of
// these tests has at most far more bytes than any of their small files gives a reason for.
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kLargestAllocationBytes = size_t{64} << 20;

}  // namespace

void* operator new(size_t num_bytes) {
  if (num_bytes > kLargestAllocationBytes) throw std::bad_alloc();
  void* const memory = std::malloc(num_bytes > 0 ? num_bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t num_bytes, const std::nothrow_t&) noexcept {
  return num_bytes > kLargestAllocationBytes ? nullptr : std::malloc(num_bytes > 0 ? num_bytes : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
