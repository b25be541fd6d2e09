// The part of numpy.random.RandomState that shuffles need.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace tessera::engine {

// Same sequence as numpy.random.RandomState(seed): a Mersenne twister started by init_genrand,
// which is what std::mt19937 is.
class NumpyRandomState {
 public:
  explicit NumpyRandomState(uint32_t seed) : engine_(seed) {}

  // As RandomState.shuffle does to a one-dimensional array: from the last element down, a swap with
  // an index drawn by masked rejection. REQUIRES: at most 2^32 elements.
  void Shuffle(std::span<uint32_t> values);

 private:
  uint32_t UpTo(uint32_t highest);

  std::mt19937 engine_;
};

}  // namespace tessera::engine
