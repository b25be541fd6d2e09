#include "cost_model/base/philox.h"

#include <cmath>
#include <numbers>

namespace tessera::base {
namespace {

PhiloxCounter Block(PhiloxKey key, uint64_t block) {
  return Philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, key);
}

// Uniform in (0, 1], so that its logarithm is finite.
double OpenUniform(uint32_t bits) { return (static_cast<double>(bits) + 1.0) * 0x1p-32; }

std::array<float, 4> NormalBlock(PhiloxKey key, uint64_t block) {
  const PhiloxCounter bits = Block(key, block);
  std::array<float, 4> out{};
  for (int pair = 0; pair < 2; ++pair) {
    const double radius = std::sqrt(-2.0 * std::log(OpenUniform(bits[2 * pair])));
    const double angle = 2.0 * std::numbers::pi * OpenUniform(bits[2 * pair + 1]);
    out[2 * pair] = static_cast<float>(radius * std::cos(angle));
    out[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return out;
}

}  // namespace

PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kPhiloxMultiplier0) * counter[0];
    const uint64_t product1 = static_cast<uint64_t>(kPhiloxMultiplier1) * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  return counter;
}

PhiloxKey MakePhiloxKey(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a offset basis and prime, 64 bit
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (seed >> (8 * byte) & 0xff)) * 0x100000001b3;
  return {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)};
}

float NormalAt(PhiloxKey key, uint64_t index) { return NormalBlock(key, index / 4)[index % 4]; }

void FillNormal(PhiloxKey key, uint64_t first_index, int64_t n, float standard_deviation,
                float* out) {
  int64_t i = 0;
  while (i < n) {
    const uint64_t index = first_index + static_cast<uint64_t>(i);
    const std::array<float, 4> block = NormalBlock(key, index / 4);
    for (uint64_t lane = index % 4; lane < 4 && i < n; ++lane) {
      out[i++] = block[lane] * standard_deviation;
    }
  }
}

double UniformAt(PhiloxKey key, uint64_t index) {
  return static_cast<double>(Block(key, index / 4)[index % 4]) * 0x1p-32;
}

}  // namespace tessera::base
