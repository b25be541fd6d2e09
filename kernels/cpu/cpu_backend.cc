#include "kernels/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "cost_model/base/error.h"
#include "kernels/cpu/blas.h"

namespace tessera::kernels {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int num_threads) {
  return std::make_unique<CpuBackend>(num_threads);
}

CpuBackend::CpuBackend(int num_threads) : pool_(num_threads), thread_memory_(num_threads) {}

void CpuBackend::PrepareBlas() {
  if (blas_thread_ == std::this_thread::get_id()) return;
  UseOneBlasThread();
  blas_thread_ = std::this_thread::get_id();
}

void* CpuBackend::Allocate(size_t bytes) {
  // Large blocks sit on huge pages where the system has them: fewer faults, fewer TLB misses.
  const bool is_large = bytes >= 2 * kHugePageBytes;
  const size_t alignment = is_large ? kHugePageBytes : static_cast<size_t>(kAlignmentBytes);
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw base::SystemError(base::Concat("cannot allocate ", bytes, " bytes"));
  if (is_large) madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}

void CpuBackend::Free(void* memory, size_t) { std::free(memory); }

void CpuBackend::CopyToDevice(void* device, const void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void CpuBackend::CopyToHost(void* host, const void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

}  // namespace tessera::kernels
