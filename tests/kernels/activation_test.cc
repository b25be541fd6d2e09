// SwiGLU and rotary positions.
#include "tests/kernels/device_array.h"
#include "tests/kernels/test_shapes.h"

namespace tessera::kernels::testing {
namespace {

// A handful of roundings an element.
constexpr double kActivationTolerance = 1e-6;

constexpr RowsShape kActivationShapes[] = {{1, 1}, {5, 7}, {33, 48}, {200, 257}};

TEST(SwiGluTest, ForwardMatchesTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const auto& [num_rows, width] : kActivationShapes) {
      const Floats gate_up_values = RandomFloats(num_rows * 2 * width, 1, -8, 8);
      const DeviceFloats gate_up(*backend, gate_up_values);
      const DeviceFloats y = Unset(*backend, num_rows * width);
      backend->SwiGluForward({.gate_up = gate_up, .y = y, .num_rows = num_rows, .width = width});
      ExpectNear(y.Values(), reference::SwiGlu(num_rows, width, ToDoubles(gate_up_values)),
                 kActivationTolerance, base::Concat("rows ", num_rows, " width ", width));
    }
  }
}

TEST(SwiGluTest, BackwardMatchesTheReferenceAndMayOverwriteItsInput) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const auto& [num_rows, width] : kActivationShapes) {
      const Floats gate_up_values = RandomFloats(num_rows * 2 * width, 1, -8, 8);
      const Floats dy_values = RandomFloats(num_rows * width, 2);
      const Doubles expected = reference::SwiGluBackward(num_rows, width, ToDoubles(dy_values),
                                                         ToDoubles(gate_up_values));
      const DeviceFloats gate_up(*backend, gate_up_values), dy(*backend, dy_values);
      const DeviceFloats own = Unset(*backend, num_rows * 2 * width);
      for (const DeviceFloats* dgate_up : {&own, &gate_up}) {
        backend->SwiGluBackward({.dy = dy,
                                 .gate_up = gate_up,
                                 .dgate_up = *dgate_up,
                                 .num_rows = num_rows,
                                 .width = width});
        ExpectNear(dgate_up->Values(), expected, kActivationTolerance,
                   base::Concat("rows ", num_rows, " width ", width));
      }
    }
  }
}

TEST(SwiGluTest, FarNegativeGatesGiveZeroAndNotANumberStays) {
  const auto backend = MakeCpuBackend(1);
  const DeviceFloats gate_up(*backend,
                             Floats{-200, std::numeric_limits<float>::quiet_NaN(), 200, 1, 1, 1});
  const DeviceFloats y = Unset(*backend, 3);
  backend->SwiGluForward({.gate_up = gate_up, .y = y, .num_rows = 1, .width = 3});
  const Floats values = y.Values();
  EXPECT_EQ(values[0], 0);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[2], 200);
}

// Llama's frequencies: base^(-2i / head_dim).
Doubles InverseFrequency(int64_t head_dim) {
  Doubles frequency(head_dim / 2);
  for (size_t i = 0; i < frequency.size(); ++i) {
    frequency[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  }
  return frequency;
}

TEST(RopeTest, TurnsQueriesAndKeysAndLeavesTheRestAlone) {
  constexpr int64_t kSequence = 33, kNumRows = 3 * kSequence, kNumHeads = 5;
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const int64_t head_dim : {2, 12, 64, 128}) {
      const int64_t width = kNumHeads * head_dim;
      const int64_t stride = width + head_dim;
      const Floats before = RandomFloats(kNumRows * stride, 1);
      const Doubles frequency = InverseFrequency(head_dim);
      const DeviceFloats qk(*backend, before);
      RopeArgs args{.qk = qk,
                    .inverse_frequency = frequency.data(),
                    .num_rows = kNumRows,
                    .sequence = kSequence,
                    .num_heads = kNumHeads,
                    .head_dim = head_dim,
                    .stride = stride};
      backend->Rope(args);
      const Floats after = qk.Values();
      ExpectNear(Columns(after, stride, 0, width),
                 reference::Rope(kNumRows, kSequence, kNumHeads, head_dim,
                                 ToDoubles(Columns(before, stride, 0, width)), frequency, 1.0),
                 kActivationTolerance, base::Concat("head_dim ", head_dim));
      EXPECT_EQ(Columns(after, stride, width, head_dim), Columns(before, stride, width, head_dim));
      args.inverse = true;
      backend->Rope(args);
      ExpectNear(qk.Values(), ToDoubles(before), kActivationTolerance, "turned back");
    }
  }
}

TEST(RopeTest, LongerSequencesAndOtherFrequenciesFollowShorterOnes) {
  const auto backend = MakeCpuBackend(1);
  constexpr int64_t kHeadDim = 8;
  for (const auto& [sequence, base_factor] :
       {std::pair<int64_t, double>{4, 1.0}, {4096, 1.0}, {16, 0.5}}) {
    Doubles frequency = InverseFrequency(kHeadDim);
    for (double& value : frequency) value *= base_factor;
    const Floats before = RandomFloats(sequence * kHeadDim, 1);
    const DeviceFloats qk(*backend, before);
    backend->Rope({.qk = qk,
                   .inverse_frequency = frequency.data(),
                   .num_rows = sequence,
                   .sequence = sequence,
                   .num_heads = 1,
                   .head_dim = kHeadDim,
                   .stride = kHeadDim});
    ExpectNear(qk.Values(),
               reference::Rope(sequence, sequence, 1, kHeadDim, ToDoubles(before), frequency, 1.0),
               kActivationTolerance, base::Concat("sequence ", sequence));
  }
}

}  // namespace
}  // namespace tessera::kernels::testing
