// Tokens to the experts and back, dropout, and results that were computed in parts, on the device.
#include <limits>

#include "cost_model/base/philox.h"
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

// Widths that allow 16-byte accesses and that do not, below and above what a warp takes at once.
constexpr int64_t kRoutedWidths[] = {1, 7, 64, 257, 520};

class TokenKernelTest : public KernelTest {};

TEST_P(TokenKernelTest, PermuteTakesRowsTimesTheirScales) {
  const std::vector<int32_t> source_row{3, -1, 0, 0, 6, 2, -1, 5, 1, 4, 6};
  const auto num_rows = static_cast<int64_t>(source_row.size());
  const Doubles scale = Rounded(DType::kFloat32, RandomDoubles(num_rows, 2));
  const DeviceInts device_source(source_row);
  const DeviceArray device_scale = Floats(scale);
  for (const int64_t width : kRoutedWidths) {
    const Doubles x = Random(7 * width, 1);
    const DeviceArray device_x = Upload(x), scaled = Poison(num_rows * width),
                      plain = Poison(num_rows * width);
    TokenPermuteArgs args{.x = device_x,
                          .source_row = device_source,
                          .scale = device_scale,
                          .out = scaled,
                          .num_rows = num_rows,
                          .width = width,
                          .num_tokens = 7};
    TokenPermute(stream(), args);
    args.scale = nullptr;
    args.out = plain;
    TokenPermute(stream(), args);
    ExpectClose(scaled.Values(), reference::TokenPermute(width, x, source_row, scale), tolerance(),
                base::Concat("scaled, width ", width));
    EXPECT_EQ(plain.Values(), reference::TokenPermute(width, x, source_row, Doubles(num_rows, 1.0)))
        << width;
  }
}

TEST_P(TokenKernelTest, UnpermuteSumsTheCopiesOfATokenByTheirWeights) {
  constexpr int64_t kTokens = 9;
  constexpr int64_t kCopies = 3;
  const std::vector<int32_t> routed_row{5, 0, 2,  -1, 1,  3, 4,  4,  4, -1, -1, -1, 0, 1,
                                        2, 7, -1, 6,  -1, 7, -1, 10, 9, 8,  3,  2,  1};
  const Doubles weight = Rounded(DType::kFloat32, RandomDoubles(kTokens * kCopies, 2));
  const DeviceInts device_routed(routed_row);
  const DeviceArray device_weight = Floats(weight);
  for (const int64_t width : kRoutedWidths) {
    const Doubles x = Random(11 * width, 1);
    const DeviceArray device_x = Upload(x), weighted = Poison(kTokens * width),
                      plain = Poison(kTokens * width);
    TokenUnpermuteArgs args{.x = device_x,
                            .routed_row = device_routed,
                            .weight = device_weight,
                            .out = weighted,
                            .num_rows = 11,
                            .width = width,
                            .num_tokens = kTokens,
                            .copies = kCopies};
    TokenUnpermute(stream(), args);
    args.weight = nullptr;
    args.out = plain;
    TokenUnpermute(stream(), args);
    const std::string what = base::Concat("width ", width);
    ExpectClose(weighted.Values(), reference::TokenUnpermute(width, kCopies, x, routed_row, weight),
                tolerance(), what + " weighted");
    ExpectClose(
        plain.Values(),
        reference::TokenUnpermute(width, kCopies, x, routed_row, Doubles(weight.size(), 1.0)),
        tolerance(), what + " plain");
  }
}

class DropoutKernelTest : public KernelTest {
 protected:
  static constexpr base::PhiloxKey kKey{0x12345678, 0x9ABCDEF0};

  Doubles Drop(const Doubles& x, int64_t num_rows, int64_t width, float probability,
               uint64_t first_index, uint64_t index_stride) const {
    const DeviceArray device_x = Upload(x), y = Poison(num_rows * width);
    Dropout(stream(), {.x = device_x,
                       .y = y,
                       .num_rows = num_rows,
                       .width = width,
                       .dropout = {.probability = probability,
                                   .key = kKey,
                                   .first_index = first_index,
                                   .index_stride = index_stride}});
    return y.Values();
  }
};

TEST_P(DropoutKernelTest, DecidesAsTheDrawsOfTheHost) {
  for (const int64_t width : kRoutedWidths) {
    for (const uint64_t first_index : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 40}) {
      const int64_t num_rows = 9;
      const Doubles x = Random(num_rows * width, 1, 0.5, 1);
      const uint64_t stride = static_cast<uint64_t>(width) + 5;
      const Doubles y = Drop(x, num_rows, width, 0.3F, first_index, stride);
      Doubles expected(x.size());
      for (int64_t i = 0; i < num_rows * width; ++i) {
        const uint64_t index = first_index + static_cast<uint64_t>(i / width) * stride +
                               static_cast<uint64_t>(i % width);
        const bool stays = base::UniformAt(kKey, index) >= double{0.3F};
        expected[i] = stays ? x[i] / (1.0 - double{0.3F}) : 0.0;
        ASSERT_EQ(y[i] != 0, stays) << width << " element " << i;
      }
      ExpectClose(y, expected, tolerance(), base::Concat("width ", width));
    }
  }
}

// A probability that is exactly some element's draw, and the next one: the draw of the first stays.
TEST_P(DropoutKernelTest, DecidesAsTheHostWhereProbabilityAndDrawAreEqual) {
  uint64_t index = 0;
  while (base::UniformAt(kKey, index) != double{static_cast<float>(base::UniformAt(kKey, index))}) {
    ++index;
  }
  const auto draw = static_cast<float>(base::UniformAt(kKey, index));
  EXPECT_NE(Drop({1}, 1, 1, draw, index, 1)[0], 0);
  EXPECT_EQ(Drop({1}, 1, 1, std::nextafter(draw, 1.0F), index, 1)[0], 0);
}

TEST_P(DropoutKernelTest, ProbabilityZeroKeepsEverything) {
  const Doubles x = Random(40, 1);
  EXPECT_EQ(Drop(x, 4, 10, 0, 0, 10), x);
}

// Tokens of a context rank, of two samples: the same as on the host, by its own rule.
TEST_P(DropoutKernelTest, ASumDropsOfItsFirstTermWithTheBiasAsOnTheHost) {
  for (const int64_t width : kRoutedWidths) {
    for (const bool has_bias : {false, true}) {
      const int64_t num_rows = 9, n = num_rows * width;
      const Doubles x = Random(n, 1), residual = Random(n, 2), bias = Random(width, 3);
      const DeviceArray device_x = Upload(x), device_residual = Upload(residual);
      const DeviceArray device_bias = Upload(bias);
      const RowDropout dropout{.probability = 0.3F,
                               .key = kKey,
                               .first_index = uint64_t{5} << 33,
                               .index_stride = static_cast<uint64_t>(width),
                               .first_row = 3,
                               .sequence = 6,
                               .whole_sequence = 12,
                               .positions = {.num_early = 3, .late_shift = 6}};
      ResidualAdd(stream(), {.x = device_x,
                             .residual = device_residual,
                             .bias = has_bias ? ConstArray(device_bias) : ConstArray(),
                             .y = device_x,
                             .num_rows = num_rows,
                             .width = width,
                             .dropout = dropout});
      Doubles expected(n);
      for (int64_t i = 0; i < n; ++i) {
        // Rows 3 to 11 of tokens 0, 1, 2, 9, 10 and 11 of two samples of 12.
        constexpr int64_t kTokens[] = {9, 10, 11, 12, 13, 14, 21, 22, 23};
        const auto token = static_cast<uint64_t>(kTokens[i / width]);
        const uint64_t index = (uint64_t{5} << 33) + token * static_cast<uint64_t>(width) +
                               static_cast<uint64_t>(i % width);
        const bool stays = base::UniformAt(kKey, index) >= double{0.3F};
        const double branch = x[i] + (has_bias ? bias[i % width] : 0);
        expected[i] = residual[i] + (stays ? branch / (1 - double{0.3F}) : 0);
      }
      ExpectClose(device_x.Values(), expected, tolerance(), base::Concat("width ", width));
    }
  }
}

class MergeKernelTest : public KernelTest {};

// A ring's step: attention over two parts of the keys becomes attention over all. Early queries see
// no key of the second part.
TEST_P(MergeKernelTest, AttentionOverTwoPartsOfTheKeysMergesIntoAttentionOverAll) {
  for (const int64_t head_dim : {5, 64, 264}) {
    const reference::AttentionShape shape{2, 21, 3, 3, head_dim, 0.3};
    const Doubles q = RandomDoubles(shape.NumRows() * shape.QueryWidth(), 1);
    const Doubles k = RandomDoubles(shape.NumRows() * shape.KeyWidth(), 2);
    const Doubles v = RandomDoubles(shape.NumRows() * shape.KeyWidth(), 3);
    const auto over = [&](int64_t first, int64_t end) {
      return reference::AttentionOverKeys(shape, q, k, v, first, end);
    };
    const auto all = over(0, 21);
    const auto early = over(0, 8);
    const auto late = over(8, 21);
    const DeviceArray block_out = Upload(late.out), block_stats = Floats(late.log_sum_exp);
    for (const DType out_type : {dtype(), DType::kFloat32}) {
      const std::string what = base::Concat("head_dim ", head_dim, " ", base::ToString(out_type));
      const auto merged = InAllOrders([&] {
        const DeviceArray out(out_type, early.out), stats = Floats(early.log_sum_exp);
        LogSumExpMerge(stream(), Completed(LogSumExpMergeArgs{.block_out = block_out,
                                                              .block_stats = block_stats,
                                                              .out = out,
                                                              .stats = stats,
                                                              .batch = shape.batch,
                                                              .sequence = shape.sequence,
                                                              .num_heads = shape.num_heads,
                                                              .head_dim = head_dim}));
        return std::vector<Doubles>{out.Values(), stats.Values()};
      });
      ExpectClose(merged[0], all.out, tolerance(), what + " out");
      ExpectClose(merged[1], all.log_sum_exp, 1e-5, what + " log-sum-exp");
    }
  }
}

TEST_P(MergeKernelTest, RowsWithoutKeysOnEitherSideStayZero) {
  const double none = -std::numeric_limits<double>::infinity();
  const DeviceArray out = Upload(Doubles(8, 0.0)), block_out = Upload(Doubles(8, 0.0));
  const DeviceArray stats = Floats({none, none}), block_stats = Floats({none, 0.0});
  LogSumExpMerge(stream(), Completed(LogSumExpMergeArgs{.block_out = block_out,
                                                        .block_stats = block_stats,
                                                        .out = out,
                                                        .stats = stats,
                                                        .batch = 1,
                                                        .sequence = 2,
                                                        .num_heads = 1,
                                                        .head_dim = 4}));
  EXPECT_EQ(out.Values(), Doubles(8, 0.0));
  EXPECT_EQ(stats.Values(), (Doubles{none, 0.0}));
}

TEST_P(MergeKernelTest, SumBlocksAddsInFp32InPlaceOrElsewhere) {
  for (const int64_t n : {1, 7, 256, 3000}) {
    for (const int64_t num_blocks : {1, 2, 5}) {
      const Doubles x = Random(n * num_blocks, 1);
      Doubles expected(n, 0.0);
      for (size_t i = 0; i < x.size(); ++i) expected[i % n] += x[i];
      const DeviceArray blocks = Upload(x), sums = Poison(n), exact = PoisonFloats(n);
      const std::string what = base::Concat(num_blocks, " blocks of ", n);
      SumBlocks(stream(), {.x = blocks, .y = exact, .n = n, .num_blocks = num_blocks});
      ExpectClose(exact.Values(), expected, 1e-6, what + " to fp32");
      SumBlocks(stream(), {.x = blocks, .y = sums, .n = n, .num_blocks = num_blocks});
      ExpectClose(sums.Values(), expected, tolerance(), what);
      SumBlocks(stream(), {.x = blocks, .y = blocks, .n = n, .num_blocks = num_blocks});
      Doubles in_place = blocks.Values();
      in_place.resize(n);
      EXPECT_EQ(in_place, sums.Values()) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TokenKernelTest, kFloatTypes, TypeName);
INSTANTIATE_TEST_SUITE_P(Types, DropoutKernelTest, kFloatTypes, TypeName);
INSTANTIATE_TEST_SUITE_P(Types, MergeKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
