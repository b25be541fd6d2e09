// Rank threads and numbers for the tests of the library doubles.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/emulation_testing.h"
#include "tests/cuda_emulation/number_formats.h"
#include "tests/cuda_emulation/scopes.h"

namespace tessera::cuda_emulation::testing {

inline void Synchronize(const TestStream& stream) { Expect(cudaStreamSynchronize(stream)); }

// Runs `body` on a thread a rank; rethrows the exception of the lowest rank that threw.
inline void RunRanks(int num_ranks, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

// Numbers between -1 and 1 that `format` holds exactly.
inline std::vector<float> RandomNumbers(int64_t count, uint32_t seed, NumberFormat format) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = uniform(generator);
    if (format == NumberFormat::kBFloat16) value = FromBFloat16(ToBFloat16(value));
    if (format == NumberFormat::kFloat16) value = FromFloat16(ToFloat16(value));
  }
  return values;
}

// Numbers as bytes of their format, and back.
inline std::vector<char> Encode(const std::vector<float>& values, NumberFormat format) {
  std::vector<char> bytes(values.size() * static_cast<size_t>(SizeBytes(format)));
  StoreNumbers(values.data(), format, static_cast<int64_t>(values.size()), bytes.data());
  return bytes;
}
inline std::vector<float> Decode(const std::vector<char>& bytes, NumberFormat format) {
  std::vector<float> values(bytes.size() / static_cast<size_t>(SizeBytes(format)));
  LoadNumbers(bytes.data(), format, static_cast<int64_t>(values.size()), values.data());
  return values;
}

}  // namespace tessera::cuda_emulation::testing
