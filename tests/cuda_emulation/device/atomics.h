// Atomic operations of kernels. Relaxed, as on the device.
#pragma once

#include <type_traits>

namespace tessera::cuda_emulation {

// The types for which CUDA has atomicMax and its kin.
template <class T>
concept AtomicInteger =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;
template <class T>
concept AtomicNumber = AtomicInteger<T> || std::is_same_v<T, float> || std::is_same_v<T, double>;

// *address = update(*address), in one step; returns what was there.
template <class T, class Update>
T AtomicUpdate(T* address, Update update) {
  T old;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  T updated = update(old);
  while (!__atomic_compare_exchange(address, &old, &updated, /*weak=*/true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
    updated = update(old);
  }
  return old;
}

}  // namespace tessera::cuda_emulation

template <tessera::cuda_emulation::AtomicNumber T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return tessera::cuda_emulation::AtomicUpdate(address, [=](T old) { return old + value; });
}
template <tessera::cuda_emulation::AtomicInteger T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return tessera::cuda_emulation::AtomicUpdate(address,
                                               [=](T old) { return old < value ? value : old; });
}
template <tessera::cuda_emulation::AtomicInteger T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return tessera::cuda_emulation::AtomicUpdate(address,
                                               [=](T old) { return value < old ? value : old; });
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  static_assert(tessera::cuda_emulation::AtomicInteger<T> || std::is_same_v<T, float>);
  return tessera::cuda_emulation::AtomicUpdate(address, [=](T) { return value; });
}
template <tessera::cuda_emulation::AtomicInteger T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return tessera::cuda_emulation::AtomicUpdate(
      address, [=](T old) { return old == expected ? value : old; });
}
