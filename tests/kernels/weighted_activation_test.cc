// Activations of experts, weighted by a factor for each row.
#include "tests/kernels/device_array.h"
#include "tests/kernels/test_shapes.h"

namespace tessera::kernels::testing {
namespace {

// A handful of roundings an element; sums of up to 257 terms.
constexpr double kWeightedTolerance = 2e-6;

constexpr RowsShape kWeightedShapes[] = {{1, 1}, {5, 7}, {33, 48}, {200, 257}};

Doubles WeightRows(const Doubles& x, const Floats& weight) {
  const size_t width = x.size() / weight.size();
  Doubles weighted = x;
  for (size_t i = 0; i < x.size(); ++i) weighted[i] *= weight[i / width];
  return weighted;
}

// <dy, y> of each row: the gradient of its weight, y unweighted.
Doubles RowProducts(const Floats& dy, const Doubles& y, int64_t num_rows) {
  const size_t width = y.size() / num_rows;
  Doubles products(num_rows, 0.0);
  for (size_t i = 0; i < y.size(); ++i) products[i / width] += dy[i] * y[i];
  return products;
}

TEST(WeightedActivationTest, SwiGluTakesAFactorForEachRow) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const auto& [num_rows, width] : kWeightedShapes) {
      const Floats gate_up_values = RandomFloats(num_rows * 2 * width, 1, -8, 8);
      const Floats weights = RandomFloats(num_rows, 2),
                   dy_values = RandomFloats(num_rows * width, 3);
      const DeviceFloats gate_up(*backend, gate_up_values), row_weight(*backend, weights);
      const DeviceFloats dy(*backend, dy_values);
      const DeviceFloats y = Unset(*backend, num_rows * width), dweight = Unset(*backend, num_rows);
      const Doubles inputs = ToDoubles(gate_up_values);
      const Doubles unweighted = reference::SwiGlu(num_rows, width, inputs);
      const std::string what = base::Concat("rows ", num_rows, " width ", width);
      backend->SwiGluForward({.gate_up = gate_up,
                              .row_weight = row_weight,
                              .y = y,
                              .num_rows = num_rows,
                              .width = width});
      ExpectNear(y.Values(), WeightRows(unweighted, weights), kWeightedTolerance, what);
      backend->SwiGluBackward({.dy = dy,
                               .gate_up = gate_up,
                               .row_weight = row_weight,
                               .dgate_up = gate_up,
                               .dweight = dweight,
                               .num_rows = num_rows,
                               .width = width});
      ExpectNear(gate_up.Values(),
                 reference::SwiGluBackward(num_rows, width,
                                           WeightRows(ToDoubles(dy_values), weights), inputs),
                 kWeightedTolerance, what + " dgate_up");
      ExpectNear(dweight.Values(), RowProducts(dy_values, unweighted, num_rows), kWeightedTolerance,
                 what + " dweight");
    }
  }
}

TEST(WeightedActivationTest, GeluTakesAFactorForEachRow) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const auto& [num_rows, width] : kWeightedShapes) {
      const Floats x_values = RandomFloats(num_rows * width, 1, -5, 5);
      const Floats weights = RandomFloats(num_rows, 2),
                   dy_values = RandomFloats(num_rows * width, 3);
      const DeviceFloats x(*backend, x_values), row_weight(*backend, weights);
      const DeviceFloats dy(*backend, dy_values);
      const DeviceFloats y = Unset(*backend, num_rows * width), dweight = Unset(*backend, num_rows);
      Doubles unweighted, slopes;
      for (const float value : x_values) {
        unweighted.push_back(reference::Gelu(value));
        slopes.push_back(reference::GeluGrad(value));
      }
      for (size_t i = 0; i < slopes.size(); ++i) slopes[i] *= dy_values[i];
      const std::string what = base::Concat("rows ", num_rows, " width ", width);
      backend->WeightedGeluForward(
          {.x = x, .row_weight = row_weight, .y = y, .num_rows = num_rows, .width = width});
      ExpectNear(y.Values(), WeightRows(unweighted, weights), kWeightedTolerance, what);
      backend->WeightedGeluBackward({.dy = dy,
                                     .x = x,
                                     .row_weight = row_weight,
                                     .dx = x,
                                     .dweight = dweight,
                                     .num_rows = num_rows,
                                     .width = width});
      ExpectNear(x.Values(), WeightRows(slopes, weights), kWeightedTolerance, what + " dx");
      ExpectNear(dweight.Values(), RowProducts(dy_values, unweighted, num_rows), kWeightedTolerance,
                 what + " dweight");
    }
  }
}

// A weight of 1 is no weight, to the bit.
TEST(WeightedActivationTest, RowsOfWeightOneAreUnweighted) {
  const auto backend = MakeCpuBackend(1);
  const DeviceFloats gate_up(*backend, RandomFloats(20 * 2 * 9, 1));
  const DeviceFloats ones(*backend, Floats(20, 1.0F));
  Floats results[2];
  for (int i = 0; i < 2; ++i) {
    const DeviceFloats y = Unset(*backend, 20 * 9);
    backend->SwiGluForward({.gate_up = gate_up,
                            .row_weight = i == 0 ? ConstArray() : ConstArray(ones),
                            .y = y,
                            .num_rows = 20,
                            .width = 9});
    results[i] = y.Values();
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace tessera::kernels::testing
