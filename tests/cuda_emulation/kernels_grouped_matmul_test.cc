// Products of groups of rows, each with weights of its own, on the device.
#include "kernels/cuda/cuda_backend.h"
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

using base::Epilogue;
using base::MatMulLayout;

Doubles Slice(const Doubles& values, int64_t first, int64_t count) {
  return {values.begin() + first, values.begin() + first + count};
}

class GroupedProductTest : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr int64_t kWorkspaceBytes = 2 * kLeastScratchBytes;
  // Groups without rows first, last and in between; rows that do not begin at multiples of 16
  // bytes.
  static constexpr int64_t kGroups[6] = {0, 9, 0, 1, 30, 0};
  static constexpr int64_t kNumGroups = 6, kRows = 40;

  GroupedProductTest() : backend_({.device = 0}), workspace_(std::vector<char>(kWorkspaceBytes)) {
    backend_.AttachWorkspace(workspace_.data(), kWorkspaceBytes);
  }
  Doubles Random(int64_t n, uint32_t seed) const {
    return Rounded(GetParam(), RandomDoubles(n, seed));
  }
  DeviceArray Upload(const Doubles& values) const { return {GetParam(), values}; }

  CudaBackend backend_;
  DeviceMemory<char> workspace_;
};

TEST_P(GroupedProductTest, EachGroupMeetsItsOwnWeights) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{16, 32}, {7, 5}}) {
    const int64_t stride = n * k + 3;
    const Doubles a = Random(kRows * k, 1), b = Random(kNumGroups * stride, 2);
    const Doubles bias = Random(kNumGroups * n, 3);
    const DeviceArray device_a = Upload(a), device_b = Upload(b), device_bias = Upload(bias);
    for (const MatMulLayout layout : {MatMulLayout::kNN, MatMulLayout::kNT}) {
      for (const bool has_bias : {false, true}) {
        const DeviceArray c = DeviceArray::Poison(GetParam(), kRows * n);
        backend_.GroupedMatMul({.a = device_a,
                                .b = device_b,
                                .c = c,
                                .group_rows = kGroups,
                                .num_groups = kNumGroups,
                                .m = kRows,
                                .n = n,
                                .k = k,
                                .group_stride = stride,
                                .layout = layout,
                                .epilogue = has_bias ? Epilogue::kBias : Epilogue::kNone,
                                .bias = has_bias ? ConstArray(device_bias) : ConstArray(),
                                .bias_stride = n});
        Doubles expected;
        int64_t first = 0;
        for (int64_t group = 0; group < kNumGroups; ++group) {
          Doubles part = reference::MatMul(layout, kGroups[group], n, k,
                                           Slice(a, first * k, kGroups[group] * k),
                                           Slice(b, group * stride, n * k));
          for (size_t i = 0; i < part.size() && has_bias; ++i) part[i] += bias[group * n + i % n];
          expected.insert(expected.end(), part.begin(), part.end());
          first += kGroups[group];
        }
        ExpectClose(c.Values(), expected, ToleranceOf(GetParam()), base::Concat("n ", n));
      }
    }
  }
}

TEST_P(GroupedProductTest, GradientsAccumulateForEachGroup) {
  constexpr int64_t kM = 24, kN = 10, kStride = kM * kN + 4;
  const Doubles a = Random(kRows * kM, 1), b = Random(kRows * kN, 2);
  const Doubles before = Rounded(DType::kFloat32, RandomDoubles(kNumGroups * kStride, 3));
  const Doubles bias_before = Rounded(DType::kFloat32, RandomDoubles(kNumGroups * kN, 4));
  const DeviceArray device_a = Upload(a), device_b = Upload(b), c = Floats(before);
  const DeviceArray dbias = Floats(bias_before);
  backend_.GroupedMatMul({.a = device_a,
                          .b = device_b,
                          .c = c,
                          .group_rows = kGroups,
                          .num_groups = kNumGroups,
                          .m = kM,
                          .n = kN,
                          .k = kRows,
                          .group_stride = kStride,
                          .layout = MatMulLayout::kTN});
  backend_.GroupedBiasGrad({.dy = device_b,
                            .dbias = dbias,
                            .group_rows = kGroups,
                            .num_groups = kNumGroups,
                            .num_rows = kRows,
                            .width = kN,
                            .bias_stride = kN});
  Doubles expected = before, expected_bias = bias_before;
  int64_t first = 0;
  for (int64_t group = 0; group < kNumGroups; ++group) {
    const Doubles rows = Slice(b, first * kN, kGroups[group] * kN);
    const Doubles part = reference::MatMul(MatMulLayout::kTN, kM, kN, kGroups[group],
                                           Slice(a, first * kM, kGroups[group] * kM), rows);
    for (int64_t i = 0; i < kM * kN; ++i) expected[group * kStride + i] += part[i];
    for (size_t i = 0; i < rows.size(); ++i) expected_bias[group * kN + i % kN] += rows[i];
    first += kGroups[group];
  }
  ExpectClose(c.Values(), expected, 1e-6, "weights");
  ExpectClose(dbias.Values(), expected_bias, 1e-6, "biases");
}

INSTANTIATE_TEST_SUITE_P(Types, GroupedProductTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
