// Operations that look rows of 16-bit features up: embeddings, positions, routing, losses.
#include "tests/kernels/device_array.h"
#include "tests/kernels/half_test.h"

namespace tessera::kernels::testing {
namespace {

using Ints = std::vector<int32_t>;

constexpr int64_t kNumRows = 130;
constexpr int64_t kWidths[] = {1, 7, 257};

Ints Tokens(int64_t n, int64_t num_values) {
  Ints tokens(n);
  for (int64_t i = 0; i < n; ++i) tokens[i] = static_cast<int32_t>(i * 7919 % num_values);
  return tokens;
}

class HalfTokensTest : public HalfTest {};

TEST_P(HalfTokensTest, EmbeddingsAreCopiedBitByBit) {
  constexpr int64_t kVocab = 50, kBegin = 13, kHeld = 20;
  const Ints tokens = Tokens(kNumRows, kVocab);
  const DeviceInts device_tokens(backend(), tokens);
  for (const int64_t width : kWidths) {
    const Doubles table = Random(kHeld * width, 1);
    const TypedArray device_table = Half(table), out = UnsetHalf(kNumRows * width);
    backend().EmbeddingForward({.tokens = device_tokens,
                                .table = device_table,
                                .out = out,
                                .num_rows = kNumRows,
                                .width = width,
                                .vocab_begin = kBegin,
                                .num_vocab_rows = kHeld});
    Doubles expected(kNumRows * width);
    for (int64_t i = 0; i < kNumRows * width; ++i) {
      const int64_t index = tokens[i / width] - kBegin;
      if (index >= 0 && index < kHeld) expected[i] = table[index * width + i % width];
    }
    EXPECT_EQ(out.Values(), expected) << "width " << width;
  }
}

// Sums of a few numbers of 8 or 11 bits and one size: exact in fp32.
TEST_P(HalfTokensTest, GradientsOfTablesAddUpInFloats) {
  constexpr int64_t kVocab = 50, kSequence = 33, kFirstRow = 5;
  const Ints tokens = Tokens(kNumRows, kVocab);
  const DeviceInts device_tokens(backend(), tokens);
  for (const int64_t width : kWidths) {
    const Doubles dout = Random(kNumRows * width, 1, 1, 2);
    Doubles by_token(kVocab * width), by_position(kSequence * width);
    for (int64_t i = 0; i < kNumRows * width; ++i) {
      by_token[tokens[i / width] * width + i % width] += dout[i];
      by_position[(kFirstRow + i / width) % kSequence * width + i % width] += dout[i];
    }
    const TypedArray device_dout = Half(dout), dtokens = Float(Doubles(kVocab * width));
    const TypedArray dpositions = Float(Doubles(kSequence * width));
    backend().EmbeddingBackward({.tokens = device_tokens,
                                 .dout = device_dout,
                                 .dtable = dtokens,
                                 .num_rows = kNumRows,
                                 .width = width,
                                 .vocab_begin = 0,
                                 .num_vocab_rows = kVocab});
    EXPECT_EQ(dtokens.Values(), by_token) << "width " << width;
    backend().PositionBackward({.dx = device_dout,
                                .dtable = dpositions,
                                .num_rows = kNumRows,
                                .width = width,
                                .first_row = kFirstRow,
                                .sequence = kSequence});
    EXPECT_EQ(dpositions.Values(), by_position) << "width " << width;
  }
}

TEST_P(HalfTokensTest, PositionsAreAddedWithOneRounding) {
  constexpr int64_t kSequence = 33, kFirstRow = 40;
  for (const int64_t width : kWidths) {
    const Doubles table = Random(kSequence * width, 1), before = Random(kNumRows * width, 2);
    const TypedArray device_table = Half(table), x = Half(before);
    backend().PositionForward({.table = device_table,
                               .x = x,
                               .num_rows = kNumRows,
                               .width = width,
                               .first_row = kFirstRow,
                               .sequence = kSequence});
    Doubles expected(kNumRows * width);
    for (int64_t i = 0; i < kNumRows * width; ++i) {
      const int64_t position = (kFirstRow + i / width) % kSequence;
      expected[i] = Rounded(static_cast<float>(before[i]) +
                            static_cast<float>(table[position * width + i % width]));
    }
    EXPECT_EQ(x.Values(), expected) << "width " << width;
  }
}

TEST_P(HalfTokensTest, TokensGoToTheirExpertsAndComeBackWeighted) {
  constexpr int64_t kNumTokens = 40, kCopies = 3, kRouted = kNumTokens * kCopies;
  Ints source_row = Tokens(kRouted, kNumTokens), routed_row = Tokens(kRouted, kRouted);
  source_row[4] = routed_row[7] = -1;  // padding, a dropped token
  const DeviceInts device_source(backend(), source_row), device_routed(backend(), routed_row);
  const Doubles weight = RandomFloats(kRouted, 3, 0, 1);
  const TypedArray device_weight = Float(weight);
  for (const int64_t width : kWidths) {
    const Doubles x = Random(kNumTokens * width, 1), made = Random(kRouted * width, 2);
    const TypedArray device_x = Half(x), device_made = Half(made);
    const TypedArray routed = UnsetHalf(kRouted * width), merged = UnsetHalf(kNumTokens * width);
    Doubles expected_routed(kRouted * width), expected_merged(kNumTokens * width);
    for (int64_t i = 0; i < kRouted * width; ++i) {
      const int64_t row = i / width;
      if (source_row[row] >= 0) {
        expected_routed[i] = x[source_row[row] * width + i % width] * weight[row];
      }
      if (routed_row[row] >= 0) {
        expected_merged[row / kCopies * width + i % width] +=
            made[routed_row[row] * width + i % width] * weight[row];
      }
    }
    backend().TokenPermute({.x = device_x,
                            .source_row = device_source,
                            .scale = device_weight,
                            .out = routed,
                            .num_rows = kRouted,
                            .width = width,
                            .num_tokens = kNumTokens});
    ExpectClose(routed.Values(), expected_routed, base::Concat("width ", width, " routed"));
    backend().TokenUnpermute({.x = device_made,
                              .routed_row = device_routed,
                              .weight = device_weight,
                              .out = merged,
                              .num_rows = kRouted,
                              .width = width,
                              .num_tokens = kNumTokens,
                              .copies = kCopies});
    ExpectClose(merged.Values(), expected_merged, base::Concat("width ", width, " merged"));
  }
}

// Sums over the vocabulary and losses are fp32, and as exact as of fp32 logits of these values.
TEST_P(HalfTokensTest, LossesOf16BitLogitsAreExactToFloats) {
  constexpr int64_t kRows = 33, kValid = 300, kColumns = 320;
  constexpr float kGradScale = 0.25F;
  const Ints labels = Tokens(kRows, kValid);
  Doubles logits = Random(kRows * kColumns, 1, -6, 6);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    if (i % kColumns >= kValid) logits[i] = std::nan("");  // padding must not be read
  }
  const DeviceInts device_labels(backend(), labels);
  const TypedArray device_logits = Half(logits);
  const TypedArray max = UnsetFloat(kRows), sum_exp = UnsetFloat(kRows);
  const TypedArray target = UnsetFloat(kRows), loss = UnsetFloat(kRows);
  double loss_sum = 0;
  backend().CrossEntropyMax({.logits = device_logits,
                             .max = max,
                             .num_rows = kRows,
                             .num_columns = kColumns,
                             .num_valid = kValid});
  backend().CrossEntropySumExp({.logits = device_logits,
                                .labels = device_labels,
                                .max = max,
                                .sum_exp = sum_exp,
                                .target_logit = target,
                                .num_rows = kRows,
                                .num_columns = kColumns,
                                .num_valid = kValid});
  backend().CrossEntropyGrad({.logits = device_logits,
                              .labels = device_labels,
                              .max = max,
                              .sum_exp = sum_exp,
                              .target_logit = target,
                              .loss = loss,
                              .loss_sum = &loss_sum,
                              .num_rows = kRows,
                              .num_columns = kColumns,
                              .num_valid = kValid,
                              .grad_scale = kGradScale});
  auto expected = reference::CrossEntropy(kRows, kColumns, kValid, logits, labels);
  double expected_sum = 0;
  const Doubles found = loss.Values();
  for (int64_t i = 0; i < kRows; ++i) {
    ASSERT_NEAR(found[i], expected.loss[i], 2e-6 * 12) << i;
    expected_sum += expected.loss[i];
  }
  EXPECT_NEAR(loss_sum, expected_sum, 1e-5 * expected_sum);
  for (double& value : expected.dlogits) value *= kGradScale;
  ExpectClose(device_logits.Values(), expected.dlogits, "gradient");
}

TESSERA_HALF_SUITE(HalfTokensTest);

}  // namespace
}  // namespace tessera::kernels::testing
