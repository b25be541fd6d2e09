// The counter-based random numbers of cost_model/base/philox.h on the device: the same bits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tessera::kernels::cuda {

// Four draws of 32 bits, Philox4x32-10 of the counter (block, 0).
// Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
__device__ __forceinline__ uint4 PhiloxBlock(uint2 key, uint64_t block) {
  uint4 counter =
      make_uint4(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0U, 0U);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(0xD2511F53U) * counter.x;
    const uint64_t product1 = static_cast<uint64_t>(0xCD9E8D57U) * counter.z;
    counter = make_uint4(
        static_cast<uint32_t>(product1 >> 32) ^ counter.y ^ key.x, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter.w ^ key.y, static_cast<uint32_t>(product0));
    key.x += 0x9E3779B9U;
    key.y += 0xBB67AE85U;
  }
  return counter;
}

// Draws of a stream by their index; neighbouring ones share the work.
class PhiloxDraws {
 public:
  __device__ __forceinline__ explicit PhiloxDraws(uint2 key)
      : key_(key), block_(~uint64_t{0}), bits_(make_uint4(0, 0, 0, 0)) {}

  // The 32 bits whose value times 2^-32 is base::UniformAt(key, index).
  __device__ __forceinline__ uint32_t At(uint64_t index) {
    if (index / 4 != block_) {
      block_ = index / 4;
      bits_ = PhiloxBlock(key_, block_);
    }
    const uint32_t low = index % 2 == 0 ? bits_.x : bits_.y;
    const uint32_t high = index % 2 == 0 ? bits_.z : bits_.w;
    return index % 4 < 2 ? low : high;
  }

 private:
  uint2 key_;
  uint64_t block_;
  uint4 bits_;
};

}  // namespace tessera::kernels::cuda
