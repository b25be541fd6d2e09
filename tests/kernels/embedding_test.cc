#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

using Ints = std::vector<int32_t>;

Ints RandomTokens(int64_t n, int64_t vocab_size, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int32_t> uniform(0, static_cast<int32_t>(vocab_size) - 1);
  Ints tokens(n);
  for (int32_t& token : tokens) token = uniform(generator);
  return tokens;
}

constexpr int64_t kVocab = 50;

struct VocabShard {
  int64_t begin, num_rows;
};
// The whole vocabulary, a middle shard, and one that holds padding rows only.
constexpr VocabShard kShards[] = {{0, kVocab}, {13, 20}, {kVocab, 0}};

TEST(EmbeddingTest, ShardsCopyTheirRowsAndLeaveZerosElsewhere) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const int64_t width : {1, 7, 257}) {
      constexpr int64_t kNumRows = 130;
      const Ints tokens = RandomTokens(kNumRows, kVocab, 1);
      const DeviceInts device_tokens(*backend, tokens);
      for (const auto& [begin, num_rows] : kShards) {
        const Floats table = RandomFloats(num_rows * width, 2);
        const DeviceFloats device_table(*backend, table), out = Unset(*backend, kNumRows * width);
        backend->EmbeddingForward({.tokens = device_tokens,
                                   .table = num_rows > 0 ? ConstArray(device_table) : ConstArray(),
                                   .out = out,
                                   .num_rows = kNumRows,
                                   .width = width,
                                   .vocab_begin = begin,
                                   .num_vocab_rows = num_rows});
        const Floats values = out.Values();
        for (int64_t i = 0; i < kNumRows * width; ++i) {
          const int64_t index = tokens[i / width] - begin;
          const bool is_here = index >= 0 && index < num_rows;
          ASSERT_EQ(values[i], is_here ? table[index * width + i % width] : 0.0F) << i;
        }
      }
    }
  }
}

TEST(EmbeddingTest, GradientsOfRepeatedTokensAddUpInRowOrder) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const int64_t width : {1, 7, 257}) {
      constexpr int64_t kNumRows = 400;
      const Ints tokens = RandomTokens(kNumRows, kVocab, 1);
      const Floats dout = RandomFloats(kNumRows * width, 3);
      const DeviceInts device_tokens(*backend, tokens);
      const DeviceFloats device_dout(*backend, dout);
      for (const auto& [begin, num_rows] : kShards) {
        Floats expected = RandomFloats(num_rows * width, 4);
        const DeviceFloats dtable(*backend, expected);
        backend->EmbeddingBackward({.tokens = device_tokens,
                                    .dout = device_dout,
                                    .dtable = num_rows > 0 ? Array(dtable) : Array(),
                                    .num_rows = kNumRows,
                                    .width = width,
                                    .vocab_begin = begin,
                                    .num_vocab_rows = num_rows});
        // The same float additions in the same order: equal to the bit.
        for (int64_t i = 0; i < kNumRows * width; ++i) {
          const int64_t index = tokens[i / width] - begin;
          if (index >= 0 && index < num_rows) expected[index * width + i % width] += dout[i];
        }
        ASSERT_EQ(dtable.Values(), expected) << "width " << width << " shard at " << begin;
      }
    }
  }
}

TEST(PositionTest, RowsMeetTheirPositionsFromAnyFirstRow) {
  constexpr int64_t kSequence = 33, kNumRows = 100, kWidth = 19;
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const int64_t first_row : {0, 5, 33, 70}) {
      const Floats table = RandomFloats(kSequence * kWidth, 1);
      const Floats x = RandomFloats(kNumRows * kWidth, 2);
      Floats expected_x = x, expected_dtable = table;
      for (int64_t i = 0; i < kNumRows * kWidth; ++i) {
        const int64_t at = (first_row + i / kWidth) % kSequence * kWidth + i % kWidth;
        expected_x[i] += table[at];
        expected_dtable[at] += x[i];
      }
      const DeviceFloats device_table(*backend, table), sum(*backend, x), dx(*backend, x);
      backend->PositionForward({.table = device_table,
                                .x = sum,
                                .num_rows = kNumRows,
                                .width = kWidth,
                                .first_row = first_row,
                                .sequence = kSequence});
      EXPECT_EQ(sum.Values(), expected_x) << "first row " << first_row;
      backend->PositionBackward({.dx = dx,
                                 .dtable = device_table,
                                 .num_rows = kNumRows,
                                 .width = kWidth,
                                 .first_row = first_row,
                                 .sequence = kSequence});
      EXPECT_EQ(device_table.Values(), expected_dtable) << "first row " << first_row;
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::testing
