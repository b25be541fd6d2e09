// What the address sanitizer must be told about stacks and memory; nothing in a build without it.
#pragma once

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tessera::cuda_emulation {

#ifdef __SANITIZE_ADDRESS__

constexpr bool kAddressSanitizer = true;
inline void PoisonForSanitizer(const volatile void* begin, size_t num_bytes) {
  __asan_poison_memory_region(begin, num_bytes);
}
inline void UnpoisonForSanitizer(const volatile void* begin, size_t num_bytes) {
  __asan_unpoison_memory_region(begin, num_bytes);
}
inline void StartSwitchForSanitizer(void** fake_stack, const void* bottom, size_t num_bytes) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, num_bytes);
}
inline void FinishSwitchForSanitizer(void* fake_stack, const void** old_bottom, size_t* old_bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, old_bottom, old_bytes);
}

#else

constexpr bool kAddressSanitizer = false;
inline void PoisonForSanitizer(const volatile void*, size_t) {}
inline void UnpoisonForSanitizer(const volatile void*, size_t) {}
inline void StartSwitchForSanitizer(void**, const void*, size_t) {}
inline void FinishSwitchForSanitizer(void*, const void**, size_t*) {}

#endif

}  // namespace tessera::cuda_emulation
