#include "engine/data/numpy_sum.h"

#include <array>
#include <cstddef>

namespace tessera::engine {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kBlock = 128;

double SumInOrder(double sum, std::span<const double> values) {
  for (const double value : values) sum += value;
  return sum;
}

double SumBlock(std::span<const double> values) {
  std::array<double, kLanes> r{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) r[lane] += values[i + lane];
  }
  const double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  return SumInOrder(sum, values.subspan(i));
}

}  // namespace

double NumpySum(std::span<const double> values) {
  if (values.size() < kLanes) return SumInOrder(0, values);
  if (values.size() <= kBlock) return SumBlock(values);
  const size_t half = values.size() / 2 / kLanes * kLanes;
  return NumpySum(values.first(half)) + NumpySum(values.subspan(half));
}

}  // namespace tessera::engine
