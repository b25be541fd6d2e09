// Runs of neighbouring elements that a thread moves at once, in accesses of up to 16 bytes, and
// computes on in fp32.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kVectorBytes = 16;

// Elements of T in one access of the largest size.
template <typename T>
inline constexpr int kVectorSize = kVectorBytes / static_cast<int>(sizeof(T));

// Elements at once of two arrays of which one may have smaller elements: neighbouring threads then
// still touch neighbouring accesses in both.
template <typename A, typename B>
inline constexpr int kPairSize = kVectorSize<A> < kVectorSize<B> ? kVectorSize<A> : kVectorSize<B>;

// A machine word of kBytes bytes, what one access moves.
template <int kBytes>
struct WordOf;
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};

// kSize elements of T as they lie in memory: what a kernel holds of a row that it reads again.
template <typename T, int kSize>
struct Packed {
  static constexpr int kBytes = kSize * static_cast<int>(sizeof(T));
  static constexpr int kWordBytes = kBytes < kVectorBytes ? kBytes : kVectorBytes;
  static constexpr int kNumWords = kBytes / kWordBytes;
  using Word = typename WordOf<kWordBytes>::Type;
  Word words[kNumWords];
};

// Two elements of a 16-bit type, low address first, out of 32 bits and back.
__device__ __forceinline__ float2 UnpackPair(uint32_t bits, TypeTag<__nv_bfloat16>) {
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xFFFF0000U)};
}
__device__ __forceinline__ float2 UnpackPair(uint32_t bits, TypeTag<__half>) {
  __half2 pair;
  memcpy(&pair, &bits, sizeof(bits));
  return __half22float2(pair);
}
__device__ __forceinline__ uint32_t PackPair(float low, float high, TypeTag<__nv_bfloat16>) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}
__device__ __forceinline__ uint32_t PackPair(float low, float high, TypeTag<__half>) {
  const __half2 pair = __floats2half2_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}

template <typename T, int kSize>
__device__ __forceinline__ void Unpack(const Packed<T, kSize>& packed, float (&values)[kSize]) {
  if constexpr (sizeof(T) == 4) {
    memcpy(values, packed.words, sizeof(values));
  } else if constexpr (kSize == 1) {
    T value;
    memcpy(&value, packed.words, sizeof(value));
    values[0] = ToFloat(value);
  } else {
    uint32_t pairs[kSize / 2];
    memcpy(pairs, packed.words, sizeof(pairs));
#pragma unroll
    for (int i = 0; i < kSize / 2; ++i) {
      const float2 pair = UnpackPair(pairs[i], TypeTag<T>());
      values[2 * i] = pair.x;
      values[2 * i + 1] = pair.y;
    }
  }
}

template <typename T, int kSize>
__device__ __forceinline__ Packed<T, kSize> Pack(const float (&values)[kSize]) {
  Packed<T, kSize> packed;
  if constexpr (sizeof(T) == 4) {
    memcpy(packed.words, values, sizeof(values));
  } else if constexpr (kSize == 1) {
    const T value = FromFloat<T>(values[0]);
    memcpy(packed.words, &value, sizeof(value));
  } else {
    uint32_t pairs[kSize / 2];
#pragma unroll
    for (int i = 0; i < kSize / 2; ++i) {
      pairs[i] = PackPair(values[2 * i], values[2 * i + 1], TypeTag<T>());
    }
    memcpy(packed.words, pairs, sizeof(pairs));
  }
  return packed;
}

// REQUIRES: `from` is aligned to the smaller of kSize elements and 16 bytes.
template <int kSize, typename T>
__device__ __forceinline__ Packed<T, kSize> LoadPacked(const T* from) {
  using P = Packed<T, kSize>;
  const auto* const words = reinterpret_cast<const typename P::Word*>(from);
  P packed;
#pragma unroll
  for (int i = 0; i < P::kNumWords; ++i) packed.words[i] = words[i];
  return packed;
}

template <int kSize, typename T>
__device__ __forceinline__ void StorePacked(const Packed<T, kSize>& packed, T* to) {
  using P = Packed<T, kSize>;
  auto* const words = reinterpret_cast<typename P::Word*>(to);
#pragma unroll
  for (int i = 0; i < P::kNumWords; ++i) words[i] = packed.words[i];
}

// kSize elements from `from` on, as floats, and back. REQUIRES: alignment as for LoadPacked.
template <int kSize, typename T>
__device__ __forceinline__ void Load(const T* from, float (&values)[kSize]) {
  Unpack(LoadPacked<kSize>(from), values);
}

template <int kSize, typename T>
__device__ __forceinline__ void Store(const float (&values)[kSize], T* to) {
  StorePacked<kSize>(Pack<T>(values), to);
}

// Whether accesses of 16 bytes are possible: all arrays that are there begin at a multiple of 16
// bytes, and all counts and strides are multiples of `size` elements.
inline bool CanVectorize(int64_t size, std::initializer_list<const void*> arrays,
                         std::initializer_list<int64_t> strides) {
  for (const void* const array : arrays) {
    if (reinterpret_cast<uintptr_t>(array) % kVectorBytes != 0) return false;
  }
  for (const int64_t stride : strides) {
    if (stride % size != 0) return false;
  }
  return true;
}

}  // namespace tessera::kernels::cuda
