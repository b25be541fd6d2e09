#include "engine/tensor/memory_pool.h"

#include <algorithm>

#include "cost_model/base/check.h"

namespace tessera::engine {

void Buffer::Reset() {
  if (data_ == nullptr) return;
  pool_->Release(data_, bytes_, kind_);
  data_ = nullptr;
  bytes_ = 0;
}

void Buffer::Retag(MemoryKind kind) {
  if (data_ == nullptr || kind == kind_) return;
  pool_->Count(kind_, -bytes_);
  pool_->Count(kind, bytes_);
  kind_ = kind;
}

MemoryPool::~MemoryPool() {
  for (const auto& [bytes, blocks] : free_blocks_) {
    for (void* block : blocks) backend_.Free(block, static_cast<size_t>(bytes));
  }
}

Buffer MemoryPool::Allocate(MemoryKind kind, base::DType dtype, int64_t elements) {
  TESSERA_CHECK(elements > 0, elements, " elements");
  const int64_t bytes = elements * base::SizeBytes(dtype);
  std::vector<void*>& blocks = free_blocks_[bytes];
  void* data = nullptr;
  if (!blocks.empty()) {
    data = blocks.back();
    blocks.pop_back();
  } else {
    data = backend_.Allocate(static_cast<size_t>(bytes));
  }
  Count(kind, bytes);
  return Buffer(this, data, bytes, dtype, kind);
}

void MemoryPool::Release(void* data, int64_t bytes, MemoryKind kind) {
  free_blocks_[bytes].push_back(data);
  Count(kind, -bytes);
}

void MemoryPool::Count(MemoryKind kind, int64_t bytes) {
  const auto index = static_cast<size_t>(kind);
  live_bytes_[index] += bytes;
  peak_bytes_[index] = std::max(peak_bytes_[index], live_bytes_[index]);
}

}  // namespace tessera::engine
