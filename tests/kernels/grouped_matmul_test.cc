#include <numeric>

#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

using base::Epilogue;
using base::MatMulLayout;

// Sums of up to 700 terms of magnitude 1, in any order.
constexpr double kGroupedTolerance = 2e-5;

using GroupRows = std::vector<int64_t>;
// Groups without rows first, last and in between; one group; large ones that threads share.
const GroupRows kGroups[] = {{5}, {0, 3, 0, 0, 17, 1, 0}, {250, 0, 700, 90}, {0, 0}};

struct Size {
  int64_t n, k;
};
constexpr Size kGroupSizes[] = {{1, 1}, {7, 33}, {130, 96}};

int64_t RowsOf(const GroupRows& groups) {
  return std::accumulate(groups.begin(), groups.end(), int64_t{0});
}

Doubles Slice(const Doubles& values, int64_t first, int64_t count) {
  return {values.begin() + first, values.begin() + first + count};
}

// c[rows, n] of rows that a weight matrix each multiplies, its bias added where there is one.
Doubles Expected(MatMulLayout layout, const GroupRows& groups, const Size& size, int64_t stride,
                 const Doubles& a, const Doubles& b, const Doubles& bias) {
  Doubles c;
  int64_t first = 0;
  for (size_t group = 0; group < groups.size(); ++group) {
    const int64_t rows = groups[group];
    Doubles part =
        reference::MatMul(layout, rows, size.n, size.k, Slice(a, first * size.k, rows * size.k),
                          Slice(b, static_cast<int64_t>(group) * stride, size.n * size.k));
    for (size_t i = 0; i < part.size() && !bias.empty(); ++i) {
      part[i] += bias[group * size.n + i % size.n];
    }
    c.insert(c.end(), part.begin(), part.end());
    first += rows;
  }
  return c;
}

class GroupedMatMulTest : public ::testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Backend> backend = MakeCpuBackend(GetParam());
};

TEST_P(GroupedMatMulTest, EachGroupMeetsItsOwnWeights) {
  for (const GroupRows& groups : kGroups) {
    const auto num_groups = static_cast<int64_t>(groups.size());
    const int64_t rows = RowsOf(groups);
    for (const auto& [n, k] : kGroupSizes) {
      const int64_t stride = n * k + 3;
      const Floats a = RandomFloats(rows * k, 1), b = RandomFloats(num_groups * stride, 2);
      const Floats bias_values = RandomFloats(num_groups * n, 3);
      const DeviceFloats device_a(*backend, a), device_b(*backend, b), bias(*backend, bias_values);
      for (const MatMulLayout layout : {MatMulLayout::kNN, MatMulLayout::kNT}) {
        for (const bool has_bias : {false, true}) {
          const DeviceFloats c = Unset(*backend, rows * n);
          backend->GroupedMatMul({.a = device_a,
                                  .b = device_b,
                                  .c = c,
                                  .group_rows = groups.data(),
                                  .num_groups = num_groups,
                                  .m = rows,
                                  .n = n,
                                  .k = k,
                                  .group_stride = stride,
                                  .layout = layout,
                                  .epilogue = has_bias ? Epilogue::kBias : Epilogue::kNone,
                                  .bias = has_bias ? ConstArray(bias) : ConstArray(),
                                  .bias_stride = n});
          ExpectNear(c.Values(),
                     Expected(layout, groups, {n, k}, stride, ToDoubles(a), ToDoubles(b),
                              has_bias ? ToDoubles(bias_values) : Doubles()),
                     kGroupedTolerance, base::Concat(num_groups, " groups, n ", n, " k ", k));
        }
      }
    }
  }
}

// Of groups without rows, and between the matrices, nothing changes.
TEST_P(GroupedMatMulTest, WeightGradientsAccumulateForEachGroup) {
  for (const GroupRows& groups : kGroups) {
    const auto num_groups = static_cast<int64_t>(groups.size());
    const int64_t rows = RowsOf(groups);
    for (const auto& [n, m] : kGroupSizes) {
      const int64_t stride = n * m + 5;
      const Floats a = RandomFloats(rows * m, 1), b = RandomFloats(rows * n, 2);
      const Floats before = RandomFloats(num_groups * stride, 3);
      const DeviceFloats device_a(*backend, a), device_b(*backend, b), c(*backend, before);
      backend->GroupedMatMul({.a = device_a,
                              .b = device_b,
                              .c = c,
                              .group_rows = groups.data(),
                              .num_groups = num_groups,
                              .m = m,
                              .n = n,
                              .k = rows,
                              .group_stride = stride,
                              .layout = MatMulLayout::kTN});
      Doubles expected = ToDoubles(before);
      int64_t first = 0;
      for (int64_t group = 0; group < num_groups; ++group) {
        const Doubles part = reference::MatMul(MatMulLayout::kTN, m, n, groups[group],
                                               Slice(ToDoubles(a), first * m, groups[group] * m),
                                               Slice(ToDoubles(b), first * n, groups[group] * n));
        for (int64_t i = 0; i < m * n; ++i) expected[group * stride + i] += part[i];
        first += groups[group];
      }
      ExpectNear(c.Values(), expected, kGroupedTolerance, base::Concat("m ", m, " n ", n));
    }
  }
}

TEST_P(GroupedMatMulTest, BiasGradientsAreTheColumnSumsOfTheirGroups) {
  for (const GroupRows& groups : kGroups) {
    const auto num_groups = static_cast<int64_t>(groups.size());
    const int64_t rows = RowsOf(groups);
    constexpr int64_t kWidth = 37, kStride = 40;
    const Floats dy = RandomFloats(rows * kWidth, 1);
    const Floats before = RandomFloats(num_groups * kStride, 2);
    const DeviceFloats device_dy(*backend, dy), dbias(*backend, before);
    backend->GroupedBiasGrad({.dy = device_dy,
                              .dbias = dbias,
                              .group_rows = groups.data(),
                              .num_groups = num_groups,
                              .num_rows = rows,
                              .width = kWidth,
                              .bias_stride = kStride});
    Doubles expected = ToDoubles(before);
    int64_t row = 0;
    for (int64_t group = 0; group < num_groups; ++group) {
      for (int64_t end = row + groups[group]; row < end; ++row) {
        for (int64_t j = 0; j < kWidth; ++j) expected[group * kStride + j] += dy[row * kWidth + j];
      }
    }
    ExpectNear(dbias.Values(), expected, kGroupedTolerance, base::Concat(num_groups, " groups"));
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, GroupedMatMulTest, ::testing::ValuesIn(kThreadCounts));

}  // namespace
}  // namespace tessera::kernels::testing
