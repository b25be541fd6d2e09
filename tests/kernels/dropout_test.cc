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
                   .dropout = {.probability = probability,
                               .key = kKey,
                               .first_index = rows.first_index,
                               .index_stride = rows.index_stride}});
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

// A draw that stays is 1 / (1 - p) with probability 1 - p: the variance is p / (1 - p). Of 20,000
// of them, 0.667 for p = 0.4, its own standard deviation is below 0.005.
TEST(DropoutTest, VariesByTheShareThatWasAskedFor) {
  const auto backend = MakeCpuBackend(1);
  const Floats y = Drop(*backend, {200, 100, 0, 100}, 0.4F, Floats(20'000, 1.0F));
  double squares = 0;
  for (const float value : y) squares += (value - 1.0) * (value - 1.0);
  EXPECT_NEAR(squares / 20'000, 0.4 / 0.6, 0.02);
}

// Samples of 12 tokens on two context ranks, which hold tokens 0 to 2 and 9 to 11, and 3 to 8; of
// the first one's rows each of two tensor ranks has half.
TEST(DropoutTest, TokensDropAsInTheWholeSequenceWhoeverHoldsThem) {
  constexpr int64_t kWidth = 10, kSamples = 3, kSequence = 12;
  const auto backend = MakeCpuBackend(2);
  const Floats whole =
      Drop(*backend, {kSamples * kSequence, kWidth, 0, kWidth}, 0.5F, Floats(360, 1.0F));
  const base::TokenPositions outer{.num_early = 3, .late_shift = 6}, inner{.late_shift = 3};
  const auto expect = [&](const base::TokenPositions& positions, int64_t first_row, int64_t rows) {
    const DeviceFloats x(*backend, Floats(rows * kWidth, 1.0F));
    backend->Dropout({.x = x,
                      .y = x,
                      .num_rows = rows,
                      .width = kWidth,
                      .dropout = {.probability = 0.5F,
                                  .key = kKey,
                                  .index_stride = kWidth,
                                  .first_row = first_row,
                                  .sequence = kSequence / 2,
                                  .whole_sequence = kSequence,
                                  .positions = positions}});
    const Floats found = x.Values();
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t sample = (first_row + row) / 6, token = (first_row + row) % 6;
      const bool is_outer = positions.num_early > 0;
      const int64_t place = is_outer ? (token < 3 ? token : token + 6) : token + 3;
      for (int64_t column = 0; column < kWidth; ++column) {
        ASSERT_EQ(found[row * kWidth + column],
                  whole[(sample * kSequence + place) * kWidth + column])
            << row << " " << column;
      }
    }
  };
  expect(outer, 0, 9);
  expect(outer, 9, 9);
  expect(inner, 0, 18);
}

TEST(DropoutTest, ASumDropsOfItsFirstTermWithTheBias) {
  constexpr int64_t kRows = 37, kWidth = 70;
  const Floats x_values = RandomFloats(kRows * kWidth, 1), bias_values = RandomFloats(kWidth, 2);
  const Floats residual_values = RandomFloats(kRows * kWidth, 3);
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const bool has_bias : {false, true}) {
      const DeviceFloats x(*backend, x_values), residual(*backend, residual_values);
      const DeviceFloats bias(*backend, bias_values);
      backend->ResidualAdd(
          {.x = x,
           .residual = residual,
           .bias = has_bias ? ConstArray(bias) : ConstArray(),
           .y = x,
           .num_rows = kRows,
           .width = kWidth,
           .dropout = {
               .probability = 0.25F, .key = kKey, .first_index = 7, .index_stride = kWidth}});
      const Floats y = x.Values();
      for (int64_t i = 0; i < kRows * kWidth; ++i) {
        const bool stays = base::UniformAt(kKey, 7 + static_cast<uint64_t>(i)) >= 0.25;
        const float branch = x_values[i] + (has_bias ? bias_values[i % kWidth] : 0);
        // Terms of order one, rounded.
        ASSERT_NEAR(y[i], residual_values[i] + (stays ? branch / 0.75F : 0), 1e-6) << i;
      }
    }
  }
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
