#include "engine/tensor/memory_pool.h"

#include <algorithm>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

constexpr int64_t kPoisonPieceBytes = 1 << 20;

}  // namespace

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

MemoryPool::MemoryPool(kernels::Backend& backend, const MemoryPoolOptions& options)
    : backend_(backend), options_(options), places_(options.arena_bytes) {
  if (options.arena_bytes > 0) {
    arena_ = static_cast<std::byte*>(backend.Allocate(static_cast<size_t>(options.arena_bytes)));
  }
  if (options.poison) poison_.assign(kPoisonPieceBytes, std::byte{0xff});
}

MemoryPool::~MemoryPool() {
  for (const auto& [bytes, blocks] : free_blocks_) {
    for (void* block : blocks) backend_.Free(block, static_cast<size_t>(bytes));
  }
  if (arena_ != nullptr) backend_.Free(arena_, static_cast<size_t>(options_.arena_bytes));
}

Buffer MemoryPool::Allocate(MemoryKind kind, base::DType dtype, int64_t elements,
                            Lifetime lifetime) {
  TESSERA_CHECK(elements > 0, elements, " elements");
  const int64_t bytes = elements * base::SizeBytes(dtype);
  void* const data = Take(bytes, lifetime);
  if (options_.poison) Poison(data, bytes);
  Count(kind, bytes);
  return Buffer(this, data, bytes, dtype, kind);
}

void* MemoryPool::Take(int64_t bytes, Lifetime lifetime) {
  const std::optional<int64_t> offset = places_.Take(bytes, lifetime);
  return offset ? arena_ + *offset : TakeFromDevice(bytes);
}

void* MemoryPool::TakeFromDevice(int64_t bytes) {
  std::vector<void*>& blocks = free_blocks_[bytes];
  if (blocks.empty()) {
    from_device_bytes_ += bytes;
    return backend_.Allocate(static_cast<size_t>(bytes));
  }
  void* const data = blocks.back();
  blocks.pop_back();
  return data;
}

void MemoryPool::Release(void* data, int64_t bytes, MemoryKind kind) {
  std::byte* const block = static_cast<std::byte*>(data);
  const bool is_in_arena =
      arena_ != nullptr && block >= arena_ && block < arena_ + options_.arena_bytes;
  if (is_in_arena) {
    places_.Give(block - arena_, bytes);
  } else {
    free_blocks_[bytes].push_back(data);
  }
  Count(kind, -bytes);
}

void MemoryPool::Poison(void* data, int64_t bytes) {
  std::byte* const block = static_cast<std::byte*>(data);
  for (int64_t begin = 0; begin < bytes; begin += kPoisonPieceBytes) {
    backend_.CopyToDevice(block + begin, poison_.data(),
                          static_cast<size_t>(std::min(kPoisonPieceBytes, bytes - begin)));
  }
}

void MemoryPool::Count(MemoryKind kind, int64_t bytes) {
  const auto index = static_cast<size_t>(kind);
  live_bytes_[index] += bytes;
  peak_bytes_[index] = std::max(peak_bytes_[index], live_bytes_[index]);
}

}  // namespace tessera::engine
