#include <numeric>

#include "cost_model/base/philox.h"
#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

const base::PhiloxKey kKey = base::MakePhiloxKey(7, "dropout");

struct Rows {
  int64_t num_rows = 0, width = 0;
  uint64_t first_index = 0, index_stride = 0;
};

Floats Drop(Backend& backend, const Rows& rows, float probability, const Floats& x) {
  const DeviceFloats device_x(backend, x), y = Unset(backend, rows.num_rows * rows.width);
  backend.Dropout({.x = device_x,
                   .y = y,
                   .num_rows = rows.num_rows,
                   .width = rows.width,
                   .probability = probability,
                   .key = kKey,
                   .first_index = rows.first_index,
                   .index_stride = rows.index_stride});
  return y.Values();
}

TEST(DropoutTest, KeepsWhereTheDrawIsAtLeastTheProbability) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    const Rows rows{.num_rows = 37, .width = 70, .first_index = 5, .index_stride = 101};
    const Floats x = RandomFloats(rows.num_rows * rows.width, 1);
    const Floats y = Drop(*backend, rows, 0.25F, x);
    for (int64_t i = 0; i < rows.num_rows * rows.width; ++i) {
      const uint64_t index = 5 + static_cast<uint64_t>(i / 70 * 101 + i % 70);
      const bool stays = base::UniformAt(kKey, index) >= 0.25;
      ASSERT_FLOAT_EQ(y[i], stays ? x[i] / 0.75F : 0.0F) << i;
    }
  }
}

TEST(DropoutTest, ProbabilityZeroKeepsEverything) {
  const auto backend = MakeCpuBackend(1);
  const Rows rows{.num_rows = 3, .width = 11, .index_stride = 11};
  const Floats x = RandomFloats(33, 1);
  EXPECT_EQ(Drop(*backend, rows, 0.0F, x), x);
}

// 20,000 draws: the share of zeros has a standard deviation of 0.0035.
TEST(DropoutTest, DropsTheShareThatWasAskedForAndKeepsTheMean) {
  const auto backend = MakeCpuBackend(1);
  const Rows rows{.num_rows = 200, .width = 100, .index_stride = 100};
  const Floats y = Drop(*backend, rows, 0.4F, Floats(20'000, 1.0F));
  const auto zeros = static_cast<double>(std::count(y.begin(), y.end(), 0.0F));
  EXPECT_NEAR(zeros / 20'000, 0.4, 0.014);
  EXPECT_NEAR(std::accumulate(y.begin(), y.end(), 0.0) / 20'000, 1.0, 0.03);
}

// What two ranks of tensor parallelism do, each with half of the columns.
TEST(DropoutTest, PartsOfARowDropAsTheWholeRow) {
  const auto backend = MakeCpuBackend(1);
  const Floats x(8 * 30, 1.0F), half(8 * 15, 1.0F);
  const Floats whole = Drop(*backend, {8, 30, 0, 30}, 0.5F, x);
  const Floats left = Drop(*backend, {8, 15, 0, 30}, 0.5F, half);
  const Floats right = Drop(*backend, {8, 15, 15, 30}, 0.5F, half);
  EXPECT_EQ(left, Columns(whole, 30, 0, 15));
  EXPECT_EQ(right, Columns(whole, 30, 15, 15));
  EXPECT_NE(left, right);
}

}  // namespace
}  // namespace tessera::kernels::testing
