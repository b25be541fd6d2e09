// Memory that a backend keeps between calls for intermediate values.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "cost_model/base/math.h"

namespace tessera::kernels {

// Alignment of device memory: a cache line, and the widest vector.
constexpr int64_t kAlignmentBytes = 64;

class Scratch {
 public:
  // Room for `num_floats`, 64-byte aligned, not initialised. What an earlier call returned is lost.
  float* Get(int64_t num_floats) {
    if (num_floats > capacity_) {
      memory_.reset();
      const int64_t num_bytes =
          base::RoundUp(num_floats * static_cast<int64_t>(sizeof(float)), kAlignmentBytes);
      memory_.reset(static_cast<float*>(std::aligned_alloc(kAlignmentBytes, num_bytes)));
      capacity_ = memory_ == nullptr ? 0 : num_floats;
      if (memory_ == nullptr) throw std::bad_alloc();
    }
    return memory_.get();
  }

 private:
  struct FreeMemory {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float, FreeMemory> memory_;
  int64_t capacity_ = 0;
};

}  // namespace tessera::kernels
