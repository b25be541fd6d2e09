// Vocabulary-parallel cross-entropy on the device: the shards of all ranks one after the other,
// what ranks reduce among them reduced here.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cost_model/base/check.h"
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

struct LossCase {
  int64_t num_rows, vocab_size;
  int64_t num_shards = 1;
  int64_t padding = 0;  // columns beyond the vocabulary, of the last shard or shards
};
// Rows that begin at multiples of 16 bytes and rows that do not; a shard that is all padding.
constexpr LossCase kLossCases[] = {{1, 1},           {5, 7},       {3, 33, 1, 7}, {4, 257},
                                   {3, 1000},        {2, 1032, 1}, {3, 5003, 1},  {5, 100, 3, 2},
                                   {3, 1033, 4, 47}, {2, 5, 4, 7}};
constexpr double kGradScale = 0.25;
constexpr double kLossBefore = 3.5;

struct Result {
  Doubles loss, dlogits;
  double loss_sum = 0;
};

class CrossEntropyKernelTest : public KernelTest {
 protected:
  struct Shard {
    int64_t begin, num_columns, num_valid;
    DeviceArray logits;
  };

  // Columns of padding are NaN: they must not be read.
  std::vector<Shard> MakeShards(const LossCase& c, const Doubles& logits, int64_t offset) const {
    const int64_t num_columns = (c.vocab_size + c.padding) / c.num_shards;
    std::vector<Shard> shards;
    for (int64_t s = 0; s < c.num_shards; ++s) {
      const int64_t begin = s * num_columns;
      const int64_t num_valid = std::clamp(c.vocab_size - begin, int64_t{0}, num_columns);
      Doubles values(c.num_rows * num_columns, std::nan(""));
      for (int64_t i = 0; i < c.num_rows * num_columns; ++i) {
        const int64_t column = i % num_columns;
        if (column < num_valid) {
          values[i] = logits[i / num_columns * c.vocab_size + begin + column];
        }
      }
      shards.push_back({begin, num_columns, num_valid, Upload(values, offset)});
    }
    return shards;
  }

  // Reduces what all shards say of each row.
  template <typename Op>
  static void ReduceInto(Doubles& total, const Doubles& values, Op op) {
    for (size_t i = 0; i < total.size(); ++i) total[i] = op(total[i], values[i]);
  }

  Result Run(const LossCase& c, const Doubles& logits, const std::vector<int32_t>& labels,
             int64_t offset) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto shards = MakeShards(c, logits, offset);
    const DeviceInts device_labels(labels);
    Doubles max(c.num_rows, -kInfinity), sum(c.num_rows, 0.0), target(c.num_rows, 0.0);
    for (const Shard& shard : shards) {
      const DeviceArray out = PoisonFloats(c.num_rows);
      CrossEntropyMax(stream(), {.logits = shard.logits,
                                 .max = out,
                                 .num_rows = c.num_rows,
                                 .num_columns = shard.num_columns,
                                 .num_valid = shard.num_valid});
      ReduceInto(max, out.Values(), [](double a, double b) { return std::max(a, b); });
    }
    const DeviceArray device_max = Floats(max);
    for (const Shard& shard : shards) {
      const DeviceArray sum_exp = PoisonFloats(c.num_rows), logit = PoisonFloats(c.num_rows);
      CrossEntropySumExp(stream(), {.logits = shard.logits,
                                    .labels = device_labels,
                                    .max = device_max,
                                    .sum_exp = sum_exp,
                                    .target_logit = logit,
                                    .num_rows = c.num_rows,
                                    .num_columns = shard.num_columns,
                                    .num_valid = shard.num_valid,
                                    .vocab_begin = shard.begin});
      ReduceInto(sum, sum_exp.Values(), std::plus<>());
      ReduceInto(target, logit.Values(), std::plus<>());
    }
    return Gradient(c, shards, device_labels, device_max, Floats(sum), Floats(target));
  }

  Result Gradient(const LossCase& c, const std::vector<Shard>& shards, const DeviceInts& labels,
                  const DeviceArray& max, const DeviceArray& sum_exp, const DeviceArray& target) {
    Result result{Doubles(), Doubles(c.num_rows * c.vocab_size)};
    for (const Shard& shard : shards) {
      const DeviceArray loss = PoisonFloats(c.num_rows);
      const DeviceMemory<double> loss_sum({kLossBefore});
      CrossEntropyGrad(stream(), {.logits = shard.logits,
                                  .labels = labels,
                                  .max = max,
                                  .sum_exp = sum_exp,
                                  .target_logit = target,
                                  .loss = loss,
                                  .loss_sum = loss_sum.data(),
                                  .num_rows = c.num_rows,
                                  .num_columns = shard.num_columns,
                                  .num_valid = shard.num_valid,
                                  .vocab_begin = shard.begin,
                                  .grad_scale = static_cast<float>(kGradScale)});
      result.loss = loss.Values();
      result.loss_sum = loss_sum.Values()[0];
      const Doubles grad = shard.logits.Values();
      for (int64_t i = 0; i < c.num_rows * shard.num_columns; ++i) {
        const int64_t column = i % shard.num_columns;
        if (column < shard.num_valid) {
          result.dlogits[i / shard.num_columns * c.vocab_size + shard.begin + column] = grad[i];
        } else {
          EXPECT_EQ(grad[i], 0.0) << "gradient of padding";
        }
      }
    }
    return result;
  }

  void Expect(const LossCase& c, int64_t offset) {
    const std::string text =
        base::Concat(c.num_rows, " x ", c.vocab_size, " in ", c.num_shards, " at ", offset);
    const Doubles logits = Random(c.num_rows * c.vocab_size, 1, -8, 8);
    std::vector<int32_t> labels(c.num_rows);
    for (int64_t r = 0; r < c.num_rows; ++r) {
      labels[r] = static_cast<int32_t>((r * 7919 + c.vocab_size - 1) % c.vocab_size);
    }
    double loss_sum = 0;
    const auto found = InAllOrders([&]() -> std::vector<Doubles> {
      const Result result = Run(c, logits, labels, offset);
      loss_sum = result.loss_sum;
      return {result.loss, result.dlogits, {result.loss_sum}};
    });
    auto expected = reference::CrossEntropy(c.num_rows, c.vocab_size, c.vocab_size, logits, labels);
    double expected_sum = kLossBefore;
    for (const double loss : expected.loss) expected_sum += loss;
    for (double& value : expected.dlogits) value *= kGradScale;
    ExpectClose(found[0], expected.loss, 1e-5, "loss of " + text);
    EXPECT_NEAR(loss_sum, expected_sum, 1e-5 * expected_sum) << text;
    // One word in the vocabulary: probability one, gradient zero.
    if (c.vocab_size > 1) ExpectClose(found[1], expected.dlogits, tolerance(), "grad of " + text);
  }
};

TEST_P(CrossEntropyKernelTest, LossAndGradientAreThoseOfTheWholeVocabulary) {
  for (const LossCase& c : kLossCases) Expect(c, 0);
}

TEST_P(CrossEntropyKernelTest, ARowWithoutALabelHasNeitherLossNorGradient) {
  const LossCase c{3, 40, 2};
  const Doubles logits = Random(c.num_rows * c.vocab_size, 1, -8, 8);
  const Result expected = Run(c, logits, {5, 30, 39}, 0);
  const Result masked = Run(c, logits, {5, -1, 39}, 0);
  EXPECT_EQ(masked.loss, (Doubles{expected.loss[0], 0, expected.loss[2]}));
  Doubles dlogits = expected.dlogits;
  std::fill_n(dlogits.begin() + c.vocab_size, c.vocab_size, 0.0);
  EXPECT_EQ(masked.dlogits, dlogits);
}

TEST_P(CrossEntropyKernelTest, RowsMayBeginAnywhere) {
  Expect({3, 1000}, 1);
  Expect({3, 9}, 3);
}

TEST_P(CrossEntropyKernelTest, LossesOfManyRowsAddUp) { Expect({1100, 3}, 0); }

INSTANTIATE_TEST_SUITE_P(Types, CrossEntropyKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
