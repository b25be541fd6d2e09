// What the tests of arithmetic on 16-bit arrays share: arrays of any floating-point type made of
// doubles, values rounded to a type, and the bound that results are held to.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "cost_model/base/float16.h"
#include "kernels/backend.h"
#include "tests/kernels/reference.h"

namespace tessera::kernels::testing {

using base::DType;
using reference::Doubles;

// The bits of a value in a type, in the low bytes.
inline uint32_t BitsOf(DType dtype, double value) {
  const auto single = static_cast<float>(value);
  if (dtype == DType::kBFloat16) return base::FloatToBFloat16(single);
  if (dtype == DType::kFloat16) return base::FloatToFloat16(single);
  return std::bit_cast<uint32_t>(single);
}

inline double FromBits(DType dtype, uint32_t bits) {
  if (dtype == DType::kBFloat16) return base::BFloat16ToFloat(static_cast<uint16_t>(bits));
  if (dtype == DType::kFloat16) return base::Float16ToFloat(static_cast<uint16_t>(bits));
  return std::bit_cast<float>(bits);
}

// Device memory of a floating-point type.
class TypedArray {
 public:
  TypedArray(Backend& backend, DType dtype, const Doubles& values)
      : backend_(backend),
        dtype_(dtype),
        element_bytes_(base::SizeBytes(dtype)),
        num_bytes_(values.size() * element_bytes_),
        memory_(backend.Allocate(num_bytes_)) {
    std::vector<std::byte> bytes(num_bytes_);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t bits = BitsOf(dtype, values[i]);
      std::memcpy(&bytes[i * element_bytes_], &bits, element_bytes_);
    }
    backend.CopyToDevice(memory_, bytes.data(), num_bytes_);
  }
  ~TypedArray() { backend_.Free(memory_, num_bytes_); }
  TypedArray(const TypedArray&) = delete;
  TypedArray& operator=(const TypedArray&) = delete;

  operator Array() const { return At(0); }       // NOLINT
  operator ConstArray() const { return At(0); }  // NOLINT
  Array At(int64_t offset) const { return Array(memory_, dtype_).At(offset); }

  Doubles Values() const {
    std::vector<std::byte> bytes(num_bytes_);
    backend_.Synchronize();
    backend_.CopyToHost(bytes.data(), memory_, num_bytes_);
    Doubles values(num_bytes_ / element_bytes_);
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &bytes[i * element_bytes_], element_bytes_);
      values[i] = FromBits(dtype_, bits);
    }
    return values;
  }

 private:
  Backend& backend_;
  DType dtype_;
  size_t element_bytes_, num_bytes_;
  void* memory_;
};

// A 16-bit type and a number of threads.
class HalfTest : public ::testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  Backend& backend() { return *backend_; }

  // Random numbers that the type represents.
  Doubles Random(int64_t n, uint32_t seed, double low = -1, double high = 1) const {
    return RandomOf(dtype(), n, seed, low, high);
  }
  static Doubles RandomFloats(int64_t n, uint32_t seed, double low = -1, double high = 1) {
    return RandomOf(DType::kFloat32, n, seed, low, high);
  }
  double Rounded(double value) const { return FromBits(dtype(), BitsOf(dtype(), value)); }

  TypedArray Half(const Doubles& values) { return {*backend_, dtype(), values}; }
  TypedArray Float(const Doubles& values) { return {*backend_, DType::kFloat32, values}; }
  // All NaN: to be written, not to be read.
  TypedArray UnsetHalf(int64_t n) { return Half(Doubles(n, std::nan(""))); }
  TypedArray UnsetFloat(int64_t n) { return Float(Doubles(n, std::nan(""))); }

  // ||found - expected|| <= tolerance ||expected||, the tolerance some units of the last of 8 or 11
  // bits: results are rounded once or twice, from sums in fp32.
  void ExpectClose(const Doubles& found, const Doubles& expected, const std::string& what) const {
    ASSERT_EQ(found.size(), expected.size()) << what;
    double error = 0, scale = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      error += std::pow(found[i] - expected[i], 2);
      scale += std::pow(expected[i], 2);
    }
    const double tolerance = dtype() == DType::kBFloat16 ? 1e-2 : 2e-3;
    // Negated, so that a NaN fails.
    if (!(std::sqrt(error) <= tolerance * std::sqrt(scale))) {
      ADD_FAILURE() << what << ": error " << std::sqrt(error) << " of " << std::sqrt(scale);
    }
  }

 private:
  static Doubles RandomOf(DType dtype, int64_t n, uint32_t seed, double low, double high) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> uniform(low, high);
    Doubles values(n);
    for (double& value : values) value = FromBits(dtype, BitsOf(dtype, uniform(generator)));
    return values;
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend(std::get<1>(GetParam()));
};

inline std::string HalfName(const ::testing::TestParamInfo<std::tuple<DType, int>>& info) {
  return base::Concat(base::ToString(std::get<0>(info.param)), "_threads_",
                      std::get<1>(info.param));
}

// Instantiates a suite derived from HalfTest: both types, one thread and three.
#define TESSERA_HALF_SUITE(Suite)                                              \
  INSTANTIATE_TEST_SUITE_P(                                                    \
      Types, Suite,                                                            \
      ::testing::Combine(::testing::Values(DType::kBFloat16, DType::kFloat16), \
                         ::testing::Values(1, 3)),                             \
      HalfName)

}  // namespace tessera::kernels::testing
