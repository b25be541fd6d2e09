#include "engine/tensor/memory_pool.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/base/dtype.h"

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

Buffer MemoryPool::AllocateF32(MemoryKind kind, int64_t elements) {
  return Allocate(kind, elements * base::SizeBytes(base::DType::kFloat32));
}

Buffer MemoryPool::AllocateI32(MemoryKind kind, int64_t elements) {
  return Allocate(kind, elements * base::SizeBytes(base::DType::kInt32));
}

Buffer MemoryPool::Allocate(MemoryKind kind, int64_t bytes) {
  TESSERA_CHECK(bytes > 0, bytes, " bytes");
  std::vector<void*>& blocks = free_blocks_[bytes];
  void* data = nullptr;
  if (!blocks.empty()) {
    data = blocks.back();
    blocks.pop_back();
  } else {
    data = backend_.Allocate(static_cast<size_t>(bytes));
  }
  Count(kind, bytes);
  return Buffer(this, data, bytes, kind);
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
