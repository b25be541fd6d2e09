#include <array>

#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

using reference::AttentionResult;
using reference::AttentionShape;

struct Merged {
  Floats out, stats;
};

Floats ToFloats(const Doubles& values) { return {values.begin(), values.end()}; }

Merged Merge(Backend& backend, const AttentionShape& shape, const AttentionResult& own,
             const AttentionResult& block) {
  const DeviceFloats out(backend, ToFloats(own.out)), stats(backend, ToFloats(own.log_sum_exp));
  const DeviceFloats block_out(backend, ToFloats(block.out));
  const DeviceFloats block_stats(backend, ToFloats(block.log_sum_exp));
  backend.LogSumExpMerge({.block_out = block_out,
                          .block_stats = block_stats,
                          .out = out,
                          .stats = stats,
                          .batch = shape.batch,
                          .sequence = shape.sequence,
                          .num_heads = shape.num_heads,
                          .head_dim = shape.head_dim});
  return {out.Values(), stats.Values()};
}

struct MergeInputs {
  explicit MergeInputs(const AttentionShape& attention_shape)
      : shape(attention_shape),
        q(ToDoubles(RandomFloats(shape.NumRows() * shape.QueryWidth(), 1, -2, 2))),
        k(ToDoubles(RandomFloats(shape.NumRows() * shape.KeyWidth(), 2, -2, 2))),
        v(ToDoubles(RandomFloats(shape.NumRows() * shape.KeyWidth(), 3))) {}

  AttentionResult Over(int64_t first_key, int64_t end_key) const {
    return reference::AttentionOverKeys(shape, q, k, v, first_key, end_key);
  }

  AttentionShape shape;
  Doubles q, k, v;
};

// The early queries see no key of the second part: their statistic there is -infinity.
TEST(LogSumExpMergeTest, AttentionOverTwoPartsOfTheKeysMergesIntoAttentionOverAll) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const AttentionShape& shape :
         {AttentionShape{1, 1, 1, 1, 1, 1.0}, AttentionShape{2, 33, 3, 3, 7, 0.5},
          AttentionShape{2, 40, 4, 2, 16, 0.25}}) {
      const MergeInputs in(shape);
      const int64_t middle = shape.sequence / 2;
      const AttentionResult all = in.Over(0, shape.sequence);
      const AttentionResult early = in.Over(0, middle), late = in.Over(middle, shape.sequence);
      for (const Merged& merged :
           {Merge(*backend, shape, early, late), Merge(*backend, shape, late, early)}) {
        ExpectNear(merged.out, all.out, 1e-6, "out");
        ExpectNear(merged.stats, all.log_sum_exp, 1e-6, "log-sum-exp");
      }
    }
  }
}

TEST(LogSumExpMergeTest, RowsWithoutKeysOnEitherSideStayZero) {
  const auto backend = MakeCpuBackend(1);
  const AttentionShape shape{1, 8, 2, 2, 4, 1.0};
  const MergeInputs in(shape);
  const Merged merged = Merge(*backend, shape, in.Over(4, 6), in.Over(6, 8));
  for (int64_t row = 0; row < 4 * shape.QueryWidth(); ++row) EXPECT_EQ(merged.out[row], 0.0F);
  EXPECT_EQ(merged.stats[3], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isfinite(merged.stats[4]));
}

// Shares of exp(+-200) overflow and vanish in fp32 unless the larger statistic is taken off.
TEST(LogSumExpMergeTest, StatisticsFarFromZeroDoNotOverflow) {
  const auto backend = MakeCpuBackend(1);
  const AttentionShape shape{1, 2, 1, 1, 1, 1.0};
  const AttentionResult own{{1, 1}, {200, -200}, {}}, block{{3, 3}, {200, 200}, {}};
  const Merged merged = Merge(*backend, shape, own, block);
  ExpectNear(merged.out, {2, 3}, 1e-6, "out");
  ExpectNear(merged.stats, {200 + std::log(2.0), 200}, 1e-6, "log-sum-exp");
}

TEST(SumBlocksTest, AddsBlocksInPlaceOrElsewhere) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const auto& [n, num_blocks] :
         {std::array<int64_t, 2>{1, 1}, {1, 5}, {7, 3}, {100'003, 4}}) {
      const Floats x = RandomFloats(n * num_blocks, 1);
      Doubles expected(n, 0.0);
      for (size_t i = 0; i < x.size(); ++i) expected[i % n] += x[i];
      const DeviceFloats blocks(*backend, x), sums = Unset(*backend, n);
      backend->SumBlocks({.x = blocks, .y = sums, .n = n, .num_blocks = num_blocks});
      ExpectNear(sums.Values(), expected, 1e-6, "elsewhere");
      backend->SumBlocks({.x = blocks, .y = blocks, .n = n, .num_blocks = num_blocks});
      Floats in_place = blocks.Values();
      in_place.resize(n);
      EXPECT_EQ(in_place, sums.Values());
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::testing
