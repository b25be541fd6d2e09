// Passes over arrays on the device, and sums over columns.
#include "cost_model/base/check.h"
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

class ElementwiseKernelTest : public KernelTest {};

// One element, less and more than an access, than a block, than all blocks of the test's device.
constexpr int64_t kCounts[] = {1, 7, 33, 257, 1000, 1032, 40003};
constexpr int64_t kOffsets[] = {0, 1};

struct ElementwiseShape {
  int64_t num_rows, width;
};
constexpr ElementwiseShape kElementwiseShapes[] = {{1, 1},    {5, 7},    {3, 33},  {9, 257},
                                                   {4, 1000}, {3, 1032}, {70, 64}, {1, 4104}};

TEST_P(ElementwiseKernelTest, ScaleMultipliesInPlace) {
  for (const int64_t n : kCounts) {
    for (const int64_t offset : kOffsets) {
      const Doubles x = Random(n, 1);
      const auto found = InAllOrders([&]() -> std::vector<Doubles> {
        const DeviceArray device_x = Upload(x, offset);
        Scale(stream(), device_x, n, 0.75F);
        return {device_x.Values()};
      });
      Doubles expected = x;
      for (double& value : expected) value *= 0.75;
      ExpectClose(found[0], expected, tolerance(), base::Concat(n, " at ", offset));
    }
  }
}

TEST_P(ElementwiseKernelTest, FillWritesEveryElement) {
  for (const int64_t n : kCounts) {
    for (const int64_t offset : kOffsets) {
      const DeviceArray x = Poison(n, offset);
      Fill(stream(), x, n, -1.5F);
      EXPECT_EQ(x.Values(), Doubles(n, -1.5)) << n << " at " << offset;
    }
  }
}

TEST_P(ElementwiseKernelTest, CopyKeepsTheBits) {
  for (const int64_t n : kCounts) {
    const Doubles x = Random(n, 1);
    const DeviceArray source = Upload(x, 1), destination = Poison(n);
    Copy(stream(), source, destination, n);
    EXPECT_EQ(destination.Values(), x) << n;
  }
}

TEST_P(ElementwiseKernelTest, NothingIsDoneToNoElements) {
  Scale(stream(), nullptr, 0, 2);
  Fill(stream(), nullptr, 0, 2);
  Copy(stream(), nullptr, nullptr, 0);
  Cast(stream(), nullptr, nullptr, 0);
  Add(stream(), nullptr, nullptr, 0);
}

constexpr DType kAllTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

TEST_P(ElementwiseKernelTest, CastRoundsOnceToEachType) {
  for (const DType to : kAllTypes) {
    for (const int64_t n : kCounts) {
      for (const int64_t offset : kOffsets) {
        const Doubles x = Random(n, 1, -300, 300);
        const DeviceArray source = Upload(x, offset);
        const DeviceArray destination = DeviceArray::Poison(to, n, offset);
        Cast(stream(), source, destination, n);
        EXPECT_EQ(destination.Values(), Rounded(to, x)) << base::ToString(to) << ' ' << n;
      }
    }
  }
}

TEST_P(ElementwiseKernelTest, AddSumsArraysOfAllTypes) {
  for (const DType to : kAllTypes) {
    for (const int64_t n : kCounts) {
      const Doubles x = Random(n, 1);
      const Doubles y = Rounded(to, RandomDoubles(n, 2));
      const DeviceArray device_x = Upload(x), device_y(to, y);
      Add(stream(), device_x, device_y, n);
      Doubles expected = y;
      for (int64_t i = 0; i < n; ++i) expected[i] += x[i];
      ExpectClose(device_y.Values(), expected, ToleranceOf(to),
                  base::Concat(n, " to ", base::ToString(to)));
    }
  }
}

enum class Aliasing { kNone, kX, kResidual };

TEST_P(ElementwiseKernelTest, ResidualAddSumsRowsAndBiasAndMayWriteOverItsInputs) {
  for (const ElementwiseShape& shape : kElementwiseShapes) {
    for (const Aliasing aliasing : {Aliasing::kNone, Aliasing::kX, Aliasing::kResidual}) {
      for (const bool has_bias : {false, true}) {
        const int64_t offset = aliasing == Aliasing::kX ? 1 : 0;
        const auto [num_rows, width] = shape;
        const int64_t n = num_rows * width;
        const Doubles x = Random(n, 1), residual = Random(n, 2), bias = Random(width, 3);
        const auto found = InAllOrders([&]() -> std::vector<Doubles> {
          const DeviceArray device_x = Upload(x, offset),
                            device_residual = Upload(residual, offset);
          const DeviceArray device_bias = Upload(bias), fresh = Poison(n);
          const DeviceArray& y = aliasing == Aliasing::kNone ? fresh
                                 : aliasing == Aliasing::kX  ? device_x
                                                             : device_residual;
          ResidualAdd(stream(), {.x = device_x,
                                 .residual = device_residual,
                                 .bias = has_bias ? ConstArray(device_bias) : ConstArray(),
                                 .y = y,
                                 .num_rows = num_rows,
                                 .width = width});
          return {y.Values()};
        });
        Doubles expected(n);
        for (int64_t i = 0; i < n; ++i) {
          expected[i] = x[i] + residual[i] + (has_bias ? bias[i % width] : 0.0);
        }
        ExpectClose(found[0], expected, tolerance(), base::Concat(num_rows, " x ", width));
      }
    }
  }
}

// Only the columns up to `width` of a stride count; what lies behind is NaN.
TEST_P(ElementwiseKernelTest, BiasGradAddsTheRowsOfEachColumn) {
  for (const ElementwiseShape& shape :
       {ElementwiseShape{1, 1}, ElementwiseShape{7, 7}, ElementwiseShape{300, 33},
        ElementwiseShape{9, 257}, ElementwiseShape{40, 1000}, ElementwiseShape{3, 1032},
        ElementwiseShape{1000, 8}}) {
    for (const int64_t padding : {0, 8, 3}) {
      const auto [num_rows, width] = shape;
      const int64_t stride = width + padding;
      Doubles dy = Random(num_rows * stride, 1);
      const Doubles before = RandomDoubles(width, 2);
      Doubles expected = Rounded(DType::kFloat32, before);
      for (int64_t i = 0; i < num_rows * stride; ++i) {
        if (i % stride < width) {
          expected[i % stride] += dy[i];
        } else {
          dy[i] = std::nan("");
        }
      }
      const auto found = InAllOrders([&]() -> std::vector<Doubles> {
        const DeviceArray device_dy = Upload(dy), dbias = Floats(before);
        BiasGrad(stream(), {.dy = device_dy,
                            .dbias = dbias,
                            .num_rows = num_rows,
                            .width = width,
                            .stride = stride});
        return {dbias.Values()};
      });
      ExpectClose(found[0], expected, 1e-5, base::Concat(num_rows, " x ", width, " of ", stride));
    }
  }
}

// The scratch holds the sums of one tile of columns only.
TEST_P(ElementwiseKernelTest, BiasGradWorksInPiecesOfColumns) {
  const int64_t num_rows = 20, width = 1000;
  const TestStream small_stream(256 * 4);
  const Doubles dy = Random(num_rows * width, 1);
  const DeviceArray device_dy = Upload(dy), dbias = Floats(Doubles(width, 0.0));
  BiasGrad(
      small_stream,
      {.dy = device_dy, .dbias = dbias, .num_rows = num_rows, .width = width, .stride = width});
  Doubles expected(width, 0.0);
  for (int64_t i = 0; i < num_rows * width; ++i) expected[i % width] += dy[i];
  ExpectClose(dbias.Values(), expected, 1e-5, "in pieces");
}

INSTANTIATE_TEST_SUITE_P(Types, ElementwiseKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
