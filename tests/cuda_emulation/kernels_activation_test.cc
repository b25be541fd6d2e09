// SwiGLU and the epilogues of a matrix product on the device.
#include "cost_model/base/check.h"
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

using base::Epilogue;

struct ActivationShape {
  int64_t num_rows, width;
  int64_t offset = 0;
};
constexpr ActivationShape kActivationShapes[] = {{1, 1},    {5, 7},       {3, 33},  {9, 257},
                                                 {4, 1000}, {3, 1032, 1}, {70, 64}, {1, 4104}};

std::string Text(const ActivationShape& shape) {
  return base::Concat(shape.num_rows, " x ", shape.width, " at ", shape.offset);
}

class ActivationKernelTest : public KernelTest {};

TEST_P(ActivationKernelTest, SwiGluIsTheFormula) {
  for (const ActivationShape& shape : kActivationShapes) {
    const auto [num_rows, width, offset] = shape;
    const Doubles gate_up = Random(num_rows * 2 * width, 1, -6, 6);
    const auto found = InAllOrders([&]() -> std::vector<Doubles> {
      const DeviceArray device_gate_up = Upload(gate_up, offset);
      const DeviceArray y = Poison(num_rows * width, offset);
      SwiGluForward(stream(),
                    {.gate_up = device_gate_up, .y = y, .num_rows = num_rows, .width = width});
      return {y.Values()};
    });
    ExpectClose(found[0], reference::SwiGlu(num_rows, width, gate_up), tolerance(), Text(shape));
  }
}

// Exponentials that overflow must leave zeros and the identity, not NaN.
TEST_P(ActivationKernelTest, SwiGluSaturates) {
  const DeviceArray gate_up = Upload({-120, 120, 1, 1}), y = Poison(2);
  SwiGluForward(stream(), {.gate_up = gate_up, .y = y, .num_rows = 1, .width = 2});
  EXPECT_EQ(y.Values(), Doubles({0, 120}));
}

TEST_P(ActivationKernelTest, SwiGluBackwardIsTheFormulaAndMayWriteOverItsInput) {
  for (const ActivationShape& shape : kActivationShapes) {
    for (const bool in_place : {false, true}) {
      const auto [num_rows, width, offset] = shape;
      const Doubles gate_up = Random(num_rows * 2 * width, 1, -6, 6);
      const Doubles dy = Random(num_rows * width, 2);
      const auto found = InAllOrders([&]() -> std::vector<Doubles> {
        const DeviceArray device_gate_up = Upload(gate_up, offset), device_dy = Upload(dy, offset);
        const DeviceArray fresh = Poison(num_rows * 2 * width, offset);
        const DeviceArray& dgate_up = in_place ? device_gate_up : fresh;
        SwiGluBackward(stream(), {.dy = device_dy,
                                  .gate_up = device_gate_up,
                                  .dgate_up = dgate_up,
                                  .num_rows = num_rows,
                                  .width = width});
        return {dgate_up.Values()};
      });
      ExpectClose(found[0], reference::SwiGluBackward(num_rows, width, dy, gate_up), tolerance(),
                  Text(shape));
    }
  }
}

// What the epilogue makes of c and, for kBiasGelu, writes to aux. Behind each row of c and aux lie
// NaN, which must stay.
class EpilogueKernelTest : public KernelTest {
 protected:
  static Doubles Padded(const Doubles& dense, int64_t width, int64_t stride) {
    Doubles padded;
    for (size_t i = 0; i < dense.size(); i += width) {
      padded.insert(padded.end(), dense.begin() + i, dense.begin() + i + width);
      padded.insert(padded.end(), stride - width, std::nan(""));
    }
    return padded;
  }
  static Doubles Dense(const Doubles& padded, int64_t width, int64_t stride) {
    Doubles dense;
    for (size_t i = 0; i < padded.size(); ++i) {
      const bool is_padding = static_cast<int64_t>(i) % stride >= width;
      if (!is_padding) dense.push_back(padded[i]);
      EXPECT_TRUE(!is_padding || std::isnan(padded[i])) << "padding was written at " << i;
    }
    return dense;
  }

  // Returns c and aux, dense.
  std::vector<Doubles> Run(Epilogue epilogue, const ActivationShape& shape, int64_t stride,
                           const Doubles& c, const Doubles& bias, const Doubles& aux) {
    const auto [num_rows, width, offset] = shape;
    return InAllOrders([&]() -> std::vector<Doubles> {
      const DeviceArray device_c = Upload(Padded(c, width, stride), offset);
      const DeviceArray device_aux = Upload(Padded(aux, width, stride), offset);
      const DeviceArray device_bias = Upload(bias, offset);
      MatMulEpilogue(stream(), {.a = nullptr,
                                .b = nullptr,
                                .c = device_c,
                                .m = num_rows,
                                .n = width,
                                .ldc = stride,
                                .epilogue = epilogue,
                                .bias = bias.empty() ? ConstArray() : ConstArray(device_bias),
                                .aux = aux.empty() ? Array() : Array(device_aux)});
      return {Dense(device_c.Values(), width, stride), Dense(device_aux.Values(), width, stride)};
    });
  }
};

TEST_P(EpilogueKernelTest, BiasIsAddedToEachRow) {
  for (const ActivationShape& shape : kActivationShapes) {
    for (const int64_t padding : {0, 8, 3}) {
      const auto [num_rows, width, offset] = shape;
      const Doubles c = Random(num_rows * width, 1), bias = Random(width, 2);
      const auto found = Run(Epilogue::kBias, shape, width + padding, c, bias, {});
      Doubles expected = c;
      for (int64_t i = 0; i < num_rows * width; ++i) expected[i] += bias[i % width];
      ExpectClose(found[0], expected, tolerance(), Text(shape));
    }
  }
}

TEST_P(EpilogueKernelTest, BiasGeluKeepsItsArgument) {
  for (const ActivationShape& shape : kActivationShapes) {
    for (const bool has_bias : {false, true}) {
      const auto [num_rows, width, offset] = shape;
      const int64_t n = num_rows * width;
      const Doubles c = Random(n, 1, -4, 4);
      const Doubles bias = has_bias ? Random(width, 2) : Doubles();
      const auto found =
          Run(Epilogue::kBiasGelu, shape, width + 8, c, bias, Doubles(n, std::nan("")));
      Doubles argument = c, gelu(n);
      for (int64_t i = 0; i < n; ++i) {
        if (has_bias) argument[i] += bias[i % width];
        gelu[i] = reference::Gelu(argument[i]);
      }
      ExpectClose(found[0], gelu, tolerance(), "gelu of " + Text(shape));
      ExpectClose(found[1], argument, tolerance(), "argument of " + Text(shape));
    }
  }
}

TEST_P(EpilogueKernelTest, GeluGradMultipliesByTheDerivative) {
  for (const ActivationShape& shape : kActivationShapes) {
    const auto [num_rows, width, offset] = shape;
    const Doubles c = Random(num_rows * width, 1), aux = Random(num_rows * width, 2, -5, 5);
    const auto found = Run(Epilogue::kGeluGrad, shape, width, c, {}, aux);
    Doubles expected = c;
    for (size_t i = 0; i < c.size(); ++i) expected[i] *= reference::GeluGrad(aux[i]);
    ExpectClose(found[0], expected, tolerance(), Text(shape));
    EXPECT_EQ(found[1], aux) << Text(shape);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ActivationKernelTest, kFloatTypes, TypeName);
INSTANTIATE_TEST_SUITE_P(Types, EpilogueKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
