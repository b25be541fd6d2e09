// Where the threads of a running block meet: what barriers, warp intrinsics and wmma are made of.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <string>
#include <type_traits>

#include "tests/cuda_emulation/device/vector_types.h"

namespace tessera::cuda_emulation {

// The place in a kernel that messages name.
using Place = std::source_location;

constexpr unsigned kWarpSize = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// What lanes read from a lane that took no part: a NaN as float and as double.
constexpr uint64_t kAbsentLaneValue = 0x7ff8dead7fc0deadu;

// Of all threads of a block that met at a barrier.
struct BlockVote {
  unsigned num_true = 0;
  unsigned num_threads = 0;
};

// Waits until every thread of the block that has not returned is here. A Fault where they meet at
// different barriers, or where some wait elsewhere for good.
const BlockVote& MeetBlock(bool predicate, const char* what, Place place);

// Runs once, on the last lane to come, before any lane goes on.
using LaneWork = void (*)(uint64_t* values);

// What the lanes of a mask brought.
struct LaneValues {
  const uint64_t* values;  // [kWarpSize]
  uint32_t lanes;          // that took part: those of the mask that have not returned
};

// Waits until every lane of `mask` that has not returned brings a value to the same intrinsic, told
// apart by its name `what`. A Fault where a lane is not in its own mask or lanes mix intrinsics.
LaneValues MeetLanes(unsigned mask, uint64_t value, const char* what, Place place,
                     LaneWork work = nullptr);

// The running thread's position in its warp.
inline thread_local constinit unsigned current_lane = 0;

// The lanes of the running thread's warp that exist and have not returned.
unsigned LiveLanes();

// Ends the kernel with a Fault that names it, the running thread and the place.
[[noreturn]] void FailKernel(const std::string& what, Place place);

template <class T>
uint64_t ToBits(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves up to 8 bytes");
  static_assert(std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T FromBits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

}  // namespace tessera::cuda_emulation
