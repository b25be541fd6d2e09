#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

using Ints = std::vector<int32_t>;

// Sums of exponentials in blocks, each exponential within 3e-7.
constexpr double kLossTolerance = 2e-6;
constexpr float kGradScale = 0.25F;
constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

// One rank's columns of a vocabulary of num_vocab, cut into `num_ranks` shards of equal width of
// which the last holds padding.
struct LogitsShard {
  int64_t begin, num_valid;
  Floats logits;  // [num_rows, num_columns]
  Floats max, sum_exp, target_logit;
};

class ShardedCase {
 public:
  ShardedCase(int64_t rows, int64_t vocab, int64_t columns, int num_ranks)
      : num_rows(rows),
        num_vocab(vocab),
        num_columns(columns),
        logits(RandomFloats(rows * vocab, 1, -6, 6)),
        labels(rows) {
    for (int64_t i = 0; i < rows; ++i) labels[i] = static_cast<int32_t>((i * 7919) % vocab);
    for (int rank = 0; rank < num_ranks; ++rank) {
      const int64_t begin = rank * columns;
      const int64_t num_valid = std::clamp<int64_t>(vocab - begin, 0, columns);
      // Padding that would spoil every result if it were read.
      Floats own(rows * columns, std::numeric_limits<float>::quiet_NaN());
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < num_valid; ++j) {
          own[i * columns + j] = logits[i * vocab + begin + j];
        }
      }
      shards.push_back({begin, num_valid, own, {}, {}, {}});
    }
  }

  int64_t num_rows, num_vocab, num_columns;
  Floats logits;
  Ints labels;
  std::vector<LogitsShard> shards;
};

// The three passes with the reductions between them; logits become gradients. Returns the loss.
Floats RunPasses(Backend& backend, ShardedCase& c) {
  const DeviceInts labels(backend, c.labels);
  Floats max(c.num_rows, -kFloatInfinity), sum(c.num_rows), target(c.num_rows), loss;
  for (LogitsShard& shard : c.shards) {
    const DeviceFloats logits(backend, shard.logits), out = Unset(backend, c.num_rows);
    backend.CrossEntropyMax({.logits = logits,
                             .max = out,
                             .num_rows = c.num_rows,
                             .num_columns = c.num_columns,
                             .num_valid = shard.num_valid});
    shard.max = out.Values();
    for (int64_t i = 0; i < c.num_rows; ++i) max[i] = std::max(max[i], shard.max[i]);
  }
  const DeviceFloats device_max(backend, max);
  for (LogitsShard& shard : c.shards) {
    const DeviceFloats logits(backend, shard.logits);
    const DeviceFloats sum_exp = Unset(backend, c.num_rows), own = Unset(backend, c.num_rows);
    backend.CrossEntropySumExp({.logits = logits,
                                .labels = labels,
                                .max = device_max,
                                .sum_exp = sum_exp,
                                .target_logit = own,
                                .num_rows = c.num_rows,
                                .num_columns = c.num_columns,
                                .num_valid = shard.num_valid,
                                .vocab_begin = shard.begin});
    shard.sum_exp = sum_exp.Values();
    shard.target_logit = own.Values();
    for (int64_t i = 0; i < c.num_rows; ++i) {
      sum[i] += shard.sum_exp[i];
      target[i] += shard.target_logit[i];
    }
  }
  const DeviceFloats device_sum(backend, sum), device_target(backend, target);
  for (LogitsShard& shard : c.shards) {
    const DeviceFloats logits(backend, shard.logits), device_loss = Unset(backend, c.num_rows);
    double loss_sum = 1;  // what was there before stays in the sum
    backend.CrossEntropyGrad({.logits = logits,
                              .labels = labels,
                              .max = device_max,
                              .sum_exp = device_sum,
                              .target_logit = device_target,
                              .loss = device_loss,
                              .loss_sum = &loss_sum,
                              .num_rows = c.num_rows,
                              .num_columns = c.num_columns,
                              .num_valid = shard.num_valid,
                              .vocab_begin = shard.begin,
                              .grad_scale = kGradScale});
    shard.logits = logits.Values();
    loss = device_loss.Values();
    double expected_sum = 1;
    for (const float row_loss : loss) expected_sum += row_loss;
    if (!std::isnan(expected_sum)) {
      EXPECT_EQ(loss_sum, expected_sum);
    }
  }
  return loss;
}

void ExpectReference(Backend& backend, ShardedCase c) {
  const auto expected =
      reference::CrossEntropy(c.num_rows, c.num_vocab, c.num_vocab, ToDoubles(c.logits), c.labels);
  ExpectNear(RunPasses(backend, c), expected.loss, kLossTolerance, "loss");
  for (const LogitsShard& shard : c.shards) {
    for (int64_t i = 0; i < c.num_rows; ++i) {
      for (int64_t j = 0; j < c.num_columns; ++j) {
        const double value = shard.logits[i * c.num_columns + j];
        const double wanted = j < shard.num_valid
                                  ? expected.dlogits[i * c.num_vocab + shard.begin + j] * kGradScale
                                  : 0.0;
        ASSERT_NEAR(value, wanted, kLossTolerance) << "row " << i << " column " << shard.begin + j;
      }
    }
  }
}

TEST(CrossEntropyTest, OneRankWithPaddingMatchesTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    ExpectReference(*backend, ShardedCase(33, 257, 264, 1));
    ExpectReference(*backend, ShardedCase(1, 1, 1, 1));
    ExpectReference(*backend, ShardedCase(5, 9001, 9088, 1));
    ExpectReference(*backend, ShardedCase(130, 48, 48, 1));
  }
}

TEST(CrossEntropyTest, ShardsOfTheVocabularyMatchTheWholeEvenIfOneIsEmpty) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    ExpectReference(*backend, ShardedCase(33, 257, 66, 4));
    ExpectReference(*backend, ShardedCase(7, 120, 60, 3));
  }
}

TEST(CrossEntropyTest, AnEmptyShardGivesMinusInfinityAndZeros) {
  const auto backend = MakeCpuBackend(1);
  ShardedCase c(4, 10, 10, 2);
  RunPasses(*backend, c);
  EXPECT_EQ(c.shards[1].max, Floats(4, -kFloatInfinity));
  EXPECT_EQ(c.shards[1].sum_exp, Floats(4, 0.0F));
  EXPECT_EQ(c.shards[1].target_logit, Floats(4, 0.0F));
  EXPECT_EQ(c.shards[1].logits, Floats(40, 0.0F));
}

TEST(CrossEntropyTest, ARowWithoutALabelHasNeitherLossNorGradient) {
  const auto backend = MakeCpuBackend(1);
  ShardedCase whole(3, 100, 50, 2), masked = whole;
  masked.labels[1] = -1;
  const Floats expected = RunPasses(*backend, whole);
  const Floats loss = RunPasses(*backend, masked);
  EXPECT_EQ(loss, (Floats{expected[0], 0, expected[2]}));
  for (size_t shard = 0; shard < 2; ++shard) {
    Floats gradients = whole.shards[shard].logits;
    std::fill_n(gradients.begin() + 50, 50, 0.0F);
    EXPECT_EQ(masked.shards[shard].logits, gradients);
  }
}

TEST(CrossEntropyTest, ANotANumberSpoilsTheLossOfItsRowAlone) {
  const auto backend = MakeCpuBackend(1);
  ShardedCase c(3, 48, 48, 1);
  c.shards[0].logits[48 + 20] = std::numeric_limits<float>::quiet_NaN();
  const Floats loss = RunPasses(*backend, c);
  EXPECT_FALSE(std::isnan(loss[0]));
  EXPECT_TRUE(std::isnan(loss[1]));
  EXPECT_FALSE(std::isnan(loss[2]));
}

}  // namespace
}  // namespace tessera::kernels::testing
