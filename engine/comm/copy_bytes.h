#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera::engine {

// Copies between buffers that do not overlap, or are the same; `buffer_bytes`: of what the bytes
// are a part of.
//
// From 2 KiB on glibc's memcpy takes `rep movsb`, which on AMD's Zen 3 and 4 falls to a tenth of
// its speed where source and target lie alike in their pages (glibc bug 30994), as large buffers
// do: two ranks that gather 1 MB took 350 us instead of 55. So it gets smaller parts. But where
// caches do not hold the buffers it is the better one, as it does not read a target before writing
// it: 64 MB took 13 ms instead of 21 (tests/benchmarks/comm_benchmark.cc).
inline void CopyBytes(const void* from, void* to, int64_t num_bytes, int64_t buffer_bytes) {
  constexpr int64_t kMaxCachedBytes = 16 << 20;
  if (from == to) return;
  const int64_t part_bytes =
      buffer_bytes <= kMaxCachedBytes ? 2048 : std::max<int64_t>(num_bytes, 1);
  for (int64_t begin = 0; begin < num_bytes; begin += part_bytes) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<size_t>(std::min(part_bytes, num_bytes - begin)));
  }
}
inline void CopyBytes(const void* from, void* to, int64_t num_bytes) {
  CopyBytes(from, to, num_bytes, num_bytes);
}

}  // namespace tessera::engine
