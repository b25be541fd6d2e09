// Helpers of the kernel tests: random host data, device copies of it, comparison with a reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/reference.h"

namespace tessera::kernels::testing {

using reference::Doubles;
using Floats = std::vector<float>;

// The thread counts that every operation is tested with; three divides hardly any size evenly.
constexpr int kThreadCounts[] = {1, 3};

inline Floats RandomFloats(int64_t n, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  Floats values(n);
  for (float& value : values) value = uniform(generator);
  return values;
}

inline Doubles ToDoubles(const Floats& values) { return {values.begin(), values.end()}; }

// Device memory that holds a copy of host values.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(Backend& backend, const std::vector<T>& values)
      : backend_(backend),
        num_bytes_(values.size() * sizeof(T)),
        memory_(backend.Allocate(num_bytes_)) {
    backend.CopyToDevice(memory_, values.data(), num_bytes_);
  }
  ~DeviceArray() { backend_.Free(memory_, num_bytes_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  operator Array() const { return At(0); }       // NOLINT
  operator ConstArray() const { return At(0); }  // NOLINT
  // The array from element `offset` on.
  Array At(int64_t offset) const { return {static_cast<T*>(memory_) + offset, DTypeOf<T>()}; }

  std::vector<T> Values() const {
    std::vector<T> values(num_bytes_ / sizeof(T));
    backend_.Synchronize();
    backend_.CopyToHost(values.data(), memory_, num_bytes_);
    return values;
  }

 private:
  Backend& backend_;
  size_t num_bytes_;
  void* memory_;
};

using DeviceFloats = DeviceArray<float>;
using DeviceInts = DeviceArray<int32_t>;

// A value that no kernel may leave behind: marks memory that must be written.
constexpr float kUnset = 12345.0F;

inline DeviceFloats Unset(Backend& backend, int64_t n) {
  return DeviceFloats(backend, Floats(n, kUnset));
}

// Columns [first, first + width) of a matrix with row length `stride`, dense.
inline Floats Columns(const Floats& values, int64_t stride, int64_t first, int64_t width) {
  Floats columns;
  for (size_t row = 0; row < values.size() / stride; ++row) {
    const auto begin = values.begin() + static_cast<int64_t>(row) * stride + first;
    columns.insert(columns.end(), begin, begin + width);
  }
  return columns;
}

// Largest error is at most `tolerance` times the largest magnitude of the reference (at least
// `floor`): the errors of float sums scale with the terms, not with a result that cancelled.
inline void ExpectNear(const Floats& found, const Doubles& expected, double tolerance,
                       const std::string& what, double floor = 1e-3) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double scale = floor;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) {
    // Negated, so that a NaN fails.
    if (!(std::abs(found[i] - expected[i]) <= tolerance * scale)) {
      FAIL() << what << " at " << i << " of " << found.size() << ": found " << found[i]
             << ", expected " << expected[i];
    }
  }
}

}  // namespace tessera::kernels::testing
