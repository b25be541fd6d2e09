// The order in which a router prefers experts, on every device: the larger logit first, of equal
// ones the lower index.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::kernels {

// Above every key.
inline constexpr uint64_t kAboveAllExperts = ~uint64_t{0};

// The larger, the earlier; different for different experts, so that even logits that are no numbers
// have an order.
constexpr uint64_t ExpertKey(float logit, int64_t expert) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0F);  // -0 becomes 0
  const uint32_t order = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return uint64_t{order} << 32 | (0x7FFFFFFFU - static_cast<uint32_t>(expert));
}

constexpr int32_t ExpertOfKey(uint64_t key) {
  return static_cast<int32_t>(0x7FFFFFFFU - static_cast<uint32_t>(key));
}

}  // namespace tessera::kernels
