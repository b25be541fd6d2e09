#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

constexpr int64_t kElementCounts[] = {1, 7, 257, 100003};

TEST(ElementwiseTest, PassesOverMemoryDoWhatTheirNamesSay) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const int64_t n : kElementCounts) {
      const Floats x_values = RandomFloats(n, 1), y_values = RandomFloats(n, 2);
      const DeviceFloats x(*backend, x_values), y(*backend, y_values), z = Unset(*backend, n);
      Floats expected = y_values;
      for (int64_t i = 0; i < n; ++i) expected[i] += x_values[i];
      backend->Add(x, y, n);
      EXPECT_EQ(y.Values(), expected);
      for (float& value : expected) value *= 0.3F;
      backend->Scale(y, n, 0.3F);
      EXPECT_EQ(y.Values(), expected);
      backend->Copy(y, z, n);
      EXPECT_EQ(z.Values(), expected);
      backend->Fill(z, n, 2.5F);
      EXPECT_EQ(z.Values(), Floats(n, 2.5F));
    }
  }
}

TEST(ElementwiseTest, IntegersAreCopiedToo) {
  const auto backend = MakeCpuBackend(1);
  const DeviceInts source(*backend, {1, -2, 3}), destination(*backend, {0, 0, 0});
  backend->Copy(source, destination, 3);
  EXPECT_EQ(destination.Values(), (std::vector<int32_t>{1, -2, 3}));
}

TEST(ElementwiseTest, EmptyArraysAreLeftAlone) {
  const auto backend = MakeCpuBackend(3);
  double sum = 1.5;
  backend->Add(nullptr, nullptr, 0);
  backend->Fill(nullptr, 0, 1);
  backend->Scale(nullptr, 0, 1);
  backend->Copy(nullptr, nullptr, 0);
  backend->SumOfSquares({.x = nullptr, .sum = &sum, .n = 0});
  backend->AdamW({.n = 0, .step = 1});
  EXPECT_EQ(sum, 1.5);
}

TEST(ResidualAddTest, AddsTheBiasWhereThereIsOneAndMayOverwriteEitherInput) {
  constexpr int64_t kNumRows = 130, kWidth = 257;
  const Floats x_values = RandomFloats(kNumRows * kWidth, 1);
  const Floats residual_values = RandomFloats(kNumRows * kWidth, 2);
  const Floats bias_values = RandomFloats(kWidth, 3);
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const bool has_bias : {false, true}) {
      Floats expected(kNumRows * kWidth);
      for (int64_t i = 0; i < kNumRows * kWidth; ++i) {
        expected[i] = x_values[i] + residual_values[i];
        if (has_bias) expected[i] += bias_values[i % kWidth];
      }
      for (const int target : {0, 1, 2}) {
        const DeviceFloats x(*backend, x_values), residual(*backend, residual_values);
        const DeviceFloats bias(*backend, bias_values), own = Unset(*backend, kNumRows * kWidth);
        const DeviceFloats& y = target == 0 ? own : (target == 1 ? x : residual);
        backend->ResidualAdd({.x = x,
                              .residual = residual,
                              .bias = has_bias ? ConstArray(bias) : ConstArray(),
                              .y = y,
                              .num_rows = kNumRows,
                              .width = kWidth});
        EXPECT_EQ(y.Values(), expected) << "bias " << has_bias << " target " << target;
      }
    }
  }
}

TEST(BiasGradTest, AddsColumnSumsToWhatIsThere) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const int64_t width : {1, 7, 48, 257}) {
      constexpr int64_t kNumRows = 1000;
      const int64_t stride = width + 5;
      const Floats dy = RandomFloats(kNumRows * stride, 1), before = RandomFloats(width, 2);
      Doubles expected = ToDoubles(before);
      for (int64_t i = 0; i < kNumRows * width; ++i) {
        expected[i % width] += dy[i / width * stride + i % width];
      }
      const DeviceFloats device_dy(*backend, dy), dbias(*backend, before);
      backend->BiasGrad({.dy = device_dy,
                         .dbias = dbias,
                         .num_rows = kNumRows,
                         .width = width,
                         .stride = stride});
      // A thousand terms of order one in blocks of 64: at most some 80 roundings in a chain.
      ExpectNear(dbias.Values(), expected, 1e-5, base::Concat("width ", width), 30);
    }
  }
}

TEST(CpuBackendTest, MemoryIsAlignedToCacheLines) {
  const auto backend = MakeCpuBackend(1);
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{9} << 20}) {
    void* const memory = backend->Allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0U) << bytes;
    backend->Free(memory, bytes);
  }
}

}  // namespace
}  // namespace tessera::kernels::testing
