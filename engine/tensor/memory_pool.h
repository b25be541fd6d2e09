// Device memory of one rank, counted by what it is for. Blocks come from an arena, one allocation
// that was sized by the plan; where there is none (on the CPU, of a plan without a prediction), or
// a block finds no gap in it, from the device. Those are kept and handed out again: a training step
// asks for the same sizes over and over.
//
// A freed block may be handed out at once: what uses it next comes after, in the order of the
// backend's operations. Whoever lets another stream read a block keeps it until that is done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/tensor/arena.h"
#include "kernels/backend.h"

namespace tessera::engine {

enum class MemoryKind : uint8_t { kWeights, kGradients, kOptimizer, kActivations, kWorkspace };
inline constexpr size_t kNumMemoryKinds = 5;

struct MemoryPoolOptions {
  int64_t arena_bytes = 0;  // 0: no arena
  // For tests: each block is handed out full of NaN, whatever its type.
  bool poison = false;
};

class MemoryPool;

// Owns one block, an array of one type. Move-only; empty when default-constructed or moved from.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { Swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    Swap(moved);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { Reset(); }

  // Gives the block back.
  void Reset();
  // Counts the block as another kind from now on.
  void Retag(MemoryKind kind);

  kernels::Array array() const { return {data_, dtype_}; }
  void* data() const { return data_; }
  base::DType dtype() const { return dtype_; }
  int64_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class MemoryPool;
  Buffer(MemoryPool* pool, void* data, int64_t bytes, base::DType dtype, MemoryKind kind)
      : pool_(pool), data_(data), bytes_(bytes), dtype_(dtype), kind_(kind) {}
  void Swap(Buffer& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(dtype_, other.dtype_);
    std::swap(kind_, other.kind_);
  }

  MemoryPool* pool_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  base::DType dtype_ = base::DType::kFloat32;
  MemoryKind kind_ = MemoryKind::kWorkspace;
};

class MemoryPool {
 public:
  // Takes the arena's memory at once; throws base::SystemError where the device has not as much.
  explicit MemoryPool(kernels::Backend& backend, const MemoryPoolOptions& options = {});
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Not initialised. Buffers must not outlive the pool. `lifetime` is where in the arena it goes.
  // Throws base::SystemError when the device is full.
  Buffer Allocate(MemoryKind kind, base::DType dtype, int64_t elements, Lifetime lifetime);
  Buffer Allocate(MemoryKind kind, base::DType dtype, int64_t elements) {
    return Allocate(kind, dtype, elements,
                    kind == MemoryKind::kWorkspace ? Lifetime::kPass : Lifetime::kStep);
  }

  // Of all kinds together.
  int64_t live_bytes() const {
    return std::accumulate(live_bytes_.begin(), live_bytes_.end(), int64_t{0});
  }
  int64_t peak_bytes(MemoryKind kind) const { return peak_bytes_[static_cast<size_t>(kind)]; }
  // Taken from the device although there is an arena.
  int64_t beyond_arena_bytes() const { return arena_ ? from_device_bytes_ : 0; }

 private:
  friend class Buffer;
  void* Take(int64_t bytes, Lifetime lifetime);
  void* TakeFromDevice(int64_t bytes);
  void Release(void* data, int64_t bytes, MemoryKind kind);
  void Count(MemoryKind kind, int64_t bytes);
  void Poison(void* data, int64_t bytes);

  kernels::Backend& backend_;
  const MemoryPoolOptions options_;
  std::byte* arena_ = nullptr;
  Arena places_;
  std::map<int64_t, std::vector<void*>> free_blocks_;  // of the device, by size
  int64_t from_device_bytes_ = 0;
  std::vector<std::byte> poison_;
  std::array<int64_t, kNumMemoryKinds> live_bytes_ = {};
  std::array<int64_t, kNumMemoryKinds> peak_bytes_ = {};
};

}  // namespace tessera::engine
