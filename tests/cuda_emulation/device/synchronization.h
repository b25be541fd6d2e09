// Barriers, fences, and the intrinsics by which the lanes of a warp talk to each other.
#pragma once

#include <atomic>

#include "tests/cuda_emulation/device/meeting.h"

// The intrinsics take the place of their call by a default argument, for messages.
#define TESSERA_EMULATION_PLACE \
  tessera::cuda_emulation::Place place = tessera::cuda_emulation::Place::current()

inline void __syncthreads(TESSERA_EMULATION_PLACE) {
  tessera::cuda_emulation::MeetBlock(false, "__syncthreads", place);
}
inline int __syncthreads_or(int predicate, TESSERA_EMULATION_PLACE) {
  return tessera::cuda_emulation::MeetBlock(predicate != 0, "__syncthreads_or", place).num_true > 0;
}
inline int __syncthreads_and(int predicate, TESSERA_EMULATION_PLACE) {
  const auto& vote = tessera::cuda_emulation::MeetBlock(predicate != 0, "__syncthreads_and", place);
  return vote.num_true == vote.num_threads;
}
inline int __syncthreads_count(int predicate, TESSERA_EMULATION_PLACE) {
  return static_cast<int>(
      tessera::cuda_emulation::MeetBlock(predicate != 0, "__syncthreads_count", place).num_true);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, TESSERA_EMULATION_PLACE) {
  tessera::cuda_emulation::MeetLanes(mask, 0, "__syncwarp", place);
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, TESSERA_EMULATION_PLACE) {
  using namespace tessera::cuda_emulation;
  const unsigned in_segment = static_cast<unsigned>(width - 1);
  const unsigned from = (current_lane & ~in_segment) | (static_cast<unsigned>(source) & in_segment);
  return FromBits<T>(MeetLanes(mask, ToBits(value), "__shfl_sync", place).values[from]);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                  TESSERA_EMULATION_PLACE) {
  using namespace tessera::cuda_emulation;
  const unsigned lane = current_lane;
  const unsigned from = lane ^ static_cast<unsigned>(lane_mask);
  const unsigned last = lane | static_cast<unsigned>(width - 1);
  return FromBits<T>(
      MeetLanes(mask, ToBits(value), "__shfl_xor_sync", place).values[from > last ? lane : from]);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   TESSERA_EMULATION_PLACE) {
  using namespace tessera::cuda_emulation;
  const unsigned lane = current_lane;
  const unsigned last = lane | static_cast<unsigned>(width - 1);
  return FromBits<T>(MeetLanes(mask, ToBits(value), "__shfl_down_sync", place)
                         .values[delta > last - lane ? lane : lane + delta]);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 TESSERA_EMULATION_PLACE) {
  using namespace tessera::cuda_emulation;
  const unsigned lane = current_lane;
  const unsigned first = lane & ~static_cast<unsigned>(width - 1);
  return FromBits<T>(MeetLanes(mask, ToBits(value), "__shfl_up_sync", place)
                         .values[delta > lane - first ? lane : lane - delta]);
}

namespace tessera::cuda_emulation {

// Combines the values of all lanes that took part, in ascending order.
template <class T, class Combine>
T ReduceLanes(unsigned mask, T value, const char* what, Place place, Combine combine) {
  const LaneValues met = MeetLanes(mask, ToBits(value), what, place);
  uint32_t rest = met.lanes;
  T result = FromBits<T>(met.values[std::countr_zero(rest)]);
  for (rest &= rest - 1; rest != 0; rest &= rest - 1) {
    result = combine(result, FromBits<T>(met.values[std::countr_zero(rest)]));
  }
  return result;
}

}  // namespace tessera::cuda_emulation

inline unsigned __ballot_sync(unsigned mask, int predicate, TESSERA_EMULATION_PLACE) {
  const unsigned bit = predicate != 0 ? 1u << tessera::cuda_emulation::current_lane : 0u;
  return tessera::cuda_emulation::ReduceLanes(mask, bit, "__ballot_sync", place,
                                              [](unsigned a, unsigned b) { return a | b; });
}
inline int __any_sync(unsigned mask, int predicate, TESSERA_EMULATION_PLACE) {
  return tessera::cuda_emulation::ReduceLanes(mask, int{predicate != 0}, "__any_sync", place,
                                              [](int a, int b) { return a | b; });
}
inline int __all_sync(unsigned mask, int predicate, TESSERA_EMULATION_PLACE) {
  return tessera::cuda_emulation::ReduceLanes(mask, int{predicate != 0}, "__all_sync", place,
                                              [](int a, int b) { return a & b; });
}
inline unsigned __activemask() { return tessera::cuda_emulation::LiveLanes(); }

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, TESSERA_EMULATION_PLACE) {
  return tessera::cuda_emulation::ReduceLanes(mask, value, "__reduce_add_sync", place,
                                              [](unsigned a, unsigned b) { return a + b; });
}
inline int __reduce_add_sync(unsigned mask, int value, TESSERA_EMULATION_PLACE) {
  return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned>(value), place));
}
template <class T>
T __reduce_max_sync(unsigned mask, T value, TESSERA_EMULATION_PLACE) {
  static_assert(sizeof(T) == 4 && std::is_integral_v<T>);
  return tessera::cuda_emulation::ReduceLanes(mask, value, "__reduce_max_sync", place,
                                              [](T a, T b) { return a < b ? b : a; });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value, TESSERA_EMULATION_PLACE) {
  static_assert(sizeof(T) == 4 && std::is_integral_v<T>);
  return tessera::cuda_emulation::ReduceLanes(mask, value, "__reduce_min_sync", place,
                                              [](T a, T b) { return b < a ? b : a; });
}

#undef TESSERA_EMULATION_PLACE
