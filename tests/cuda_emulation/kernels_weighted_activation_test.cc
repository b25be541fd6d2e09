// Activations of experts, weighted by a factor for each row, on the device.
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

class WeightedActivationKernelTest : public KernelTest {};

struct WeightedShape {
  int64_t num_rows, width;
};
constexpr WeightedShape kWeightedShapes[] = {{1, 1},    {5, 7},   {9, 257},
                                             {3, 1032}, {40, 64}, {1, 4104}};

Doubles WeightRows(const Doubles& x, const Doubles& weight) {
  const size_t width = x.size() / weight.size();
  Doubles weighted = x;
  for (size_t i = 0; i < x.size(); ++i) weighted[i] *= weight[i / width];
  return weighted;
}

// <dy, y> of each row: the gradient of its weight, y unweighted.
Doubles RowProducts(const Doubles& dy, const Doubles& y, int64_t num_rows) {
  const size_t width = y.size() / num_rows;
  Doubles products(num_rows, 0.0);
  for (size_t i = 0; i < y.size(); ++i) products[i / width] += dy[i] * y[i];
  return products;
}

TEST_P(WeightedActivationKernelTest, SwiGluTakesAFactorForEachRow) {
  for (const auto& [num_rows, width] : kWeightedShapes) {
    const Doubles gate_up = Random(num_rows * 2 * width, 1, -6, 6);
    const Doubles dy = Random(num_rows * width, 2);
    const Doubles weights = Rounded(DType::kFloat32, RandomDoubles(num_rows, 3));
    const auto found = InAllOrders([&] {
      const DeviceArray inputs = Upload(gate_up), device_dy = Upload(dy), weight = Floats(weights);
      const DeviceArray y = Poison(num_rows * width), dweight = PoisonFloats(num_rows);
      SwiGluForward(
          stream(),
          {.gate_up = inputs, .row_weight = weight, .y = y, .num_rows = num_rows, .width = width});
      SwiGluBackward(stream(), {.dy = device_dy,
                                .gate_up = inputs,
                                .row_weight = weight,
                                .dgate_up = inputs,
                                .dweight = dweight,
                                .num_rows = num_rows,
                                .width = width});
      return std::vector<Doubles>{y.Values(), inputs.Values(), dweight.Values()};
    });
    const std::string what = base::Concat(num_rows, " x ", width);
    const Doubles unweighted = reference::SwiGlu(num_rows, width, gate_up);
    ExpectClose(found[0], WeightRows(unweighted, weights), tolerance(), what);
    ExpectClose(found[1],
                reference::SwiGluBackward(num_rows, width, WeightRows(dy, weights), gate_up),
                tolerance(), what);
    ExpectClose(found[2], RowProducts(dy, unweighted, num_rows), 1e-5, what);
  }
}

TEST_P(WeightedActivationKernelTest, GeluTakesAFactorForEachRow) {
  for (const auto& [num_rows, width] : kWeightedShapes) {
    const Doubles x = Random(num_rows * width, 1, -5, 5), dy = Random(num_rows * width, 2);
    const Doubles weights = Rounded(DType::kFloat32, RandomDoubles(num_rows, 3));
    const auto found = InAllOrders([&] {
      const DeviceArray inputs = Upload(x), device_dy = Upload(dy), weight = Floats(weights);
      const DeviceArray y = Poison(num_rows * width), dweight = PoisonFloats(num_rows);
      WeightedGeluForward(
          stream(),
          {.x = inputs, .row_weight = weight, .y = y, .num_rows = num_rows, .width = width});
      WeightedGeluBackward(stream(), {.dy = device_dy,
                                      .x = inputs,
                                      .row_weight = weight,
                                      .dx = device_dy,
                                      .dweight = dweight,
                                      .num_rows = num_rows,
                                      .width = width});
      return std::vector<Doubles>{y.Values(), device_dy.Values(), dweight.Values()};
    });
    const std::string what = base::Concat(num_rows, " x ", width);
    Doubles unweighted = x, slopes = dy;
    for (size_t i = 0; i < x.size(); ++i) {
      unweighted[i] = reference::Gelu(x[i]);
      slopes[i] *= reference::GeluGrad(x[i]);
    }
    ExpectClose(found[0], WeightRows(unweighted, weights), tolerance(), what);
    ExpectClose(found[1], WeightRows(slopes, weights), tolerance(), what);
    ExpectClose(found[2], RowProducts(dy, unweighted, num_rows), 1e-5, what);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, WeightedActivationKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
