#include "tests/kernels/sequence_parts.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

constexpr int64_t kSamples = 3, kSequence = 24, kWidth = 16, kHeads = 2;

// Of each sample the tokens that a rank holds.
struct SequencePart {
  int64_t num_tokens = 0;
  base::TokenPositions positions;
};
constexpr SequencePart kParts[] = {{24, {}},
                                   {8, {.num_early = 4, .early_shift = 4, .late_shift = 12}},
                                   {12, {.num_early = 6, .early_shift = 0, .late_shift = 12}},
                                   {6, {.late_shift = 18}}};

Doubles Random(DType dtype, int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Doubles values(n);
  for (double& value : values) value = FromBits(dtype, BitsOf(dtype, uniform(generator)));
  return values;
}

// Rows of the part's tokens.
Doubles RowsOf(const SequencePart& part, const Doubles& whole) {
  Doubles rows;
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    for (int64_t i = 0; i < part.num_tokens; ++i) {
      const auto row = whole.begin() + (sample * kSequence + part.positions.Of(i)) * kWidth;
      rows.insert(rows.end(), row, row + kWidth);
    }
  }
  return rows;
}

Doubles Rotated(Backend& backend, DType dtype, const SequencePart& part, const Doubles& rows,
                const DocumentStarts& documents = {}) {
  const Doubles frequencies = {1.0, 0.3, 0.1, 0.01};
  const TypedArray qk(backend, dtype, rows);
  backend.Rope({.qk = qk,
                .inverse_frequency = frequencies.data(),
                .num_rows = static_cast<int64_t>(rows.size()) / kWidth,
                .sequence = part.num_tokens,
                .num_heads = kHeads,
                .head_dim = kWidth / kHeads,
                .stride = kWidth,
                .positions = part.positions,
                .documents = documents});
  return qk.Values();
}

// Tokens from `first_row` on, as a rank holds them that shares the tokens with others.
Doubles WithPositions(Backend& backend, DType dtype, const SequencePart& part,
                      const TypedArray& table, const Doubles& rows, int64_t first_row,
                      const DocumentStarts& documents = {}) {
  const TypedArray x(backend, dtype, Doubles(rows.begin() + first_row * kWidth, rows.end()));
  backend.PositionForward({.table = table,
                           .x = x,
                           .num_rows = static_cast<int64_t>(rows.size()) / kWidth - first_row,
                           .width = kWidth,
                           .first_row = first_row,
                           .sequence = part.num_tokens,
                           .positions = part.positions,
                           .documents = documents});
  return x.Values();
}

using Ints = std::vector<int32_t>;

// One document; four; three, of which the last is a token.
Ints DocumentBegins() {
  Ints begins;
  for (const Ints& documents : {Ints{0}, Ints{0, 5, 6, 20}, Ints{0, 12, 23}}) {
    for (int32_t token = 0; token < kSequence; ++token) {
      begins.push_back(*std::prev(std::upper_bound(documents.begin(), documents.end(), token)));
    }
  }
  return begins;
}

// The position of a row of the part; `begins` is empty or as DocumentBegins.
int64_t PositionOf(const SequencePart& part, const Ints& begins, int64_t row) {
  const int64_t token = part.positions.Of(row % part.num_tokens);
  return begins.empty() ? token : token - begins[row / part.num_tokens * kSequence + token];
}

// Each table row gets the sum of its tokens' gradients, in the order of the samples, in fp32.
Doubles ExpectedTable(const SequencePart& part, const Doubles& before, const Doubles& rows,
                      const Ints& begins) {
  Doubles table = before;
  for (int64_t row = 0; row < kSamples * part.num_tokens; ++row) {
    const int64_t position = PositionOf(part, begins, row);
    for (int64_t c = 0; c < kWidth; ++c) {
      double& sum = table[position * kWidth + c];
      sum = static_cast<float>(sum + rows[row * kWidth + c]);
    }
  }
  return table;
}

// `begins` and `documents`: none, or as DocumentBegins.
void ExpectTableGradient(Backend& backend, DType dtype, const SequencePart& part,
                         const Doubles& rows, const Ints& begins = {},
                         const DocumentStarts& documents = {}) {
  const Doubles before = Random(DType::kFloat32, kSequence * kWidth, 3);
  const TypedArray dx(backend, dtype, rows), dtable(backend, DType::kFloat32, before);
  backend.PositionBackward({.dx = dx,
                            .dtable = dtable,
                            .num_rows = kSamples * part.num_tokens,
                            .width = kWidth,
                            .sequence = part.num_tokens,
                            .positions = part.positions,
                            .documents = documents});
  EXPECT_EQ(dtable.Values(), ExpectedTable(part, before, rows, begins));
}

}  // namespace

void ExpectTokensKeepTheirPositions(Backend& backend, DType dtype) {
  const Doubles whole = Random(dtype, kSamples * kSequence * kWidth, 1);
  const Doubles rotated = Rotated(backend, dtype, kParts[0], whole);
  const TypedArray table(backend, dtype, Random(dtype, kSequence * kWidth, 2));
  const Doubles positioned = WithPositions(backend, dtype, kParts[0], table, whole, 0);
  for (const SequencePart& part : kParts) {
    SCOPED_TRACE(base::Concat(part.num_tokens, " tokens of each sample"));
    const Doubles rows = RowsOf(part, whole);
    EXPECT_EQ(Rotated(backend, dtype, part, rows), RowsOf(part, rotated));
    for (const int64_t first_row : {int64_t{0}, part.num_tokens / 2, part.num_tokens + 1}) {
      const Doubles expected = RowsOf(part, positioned);
      EXPECT_EQ(WithPositions(backend, dtype, part, table, rows, first_row),
                Doubles(expected.begin() + first_row * kWidth, expected.end()));
    }
    ExpectTableGradient(backend, dtype, part, rows);
  }
}

void ExpectPositionsCountFromDocuments(Backend& backend, DType dtype) {
  const Ints begins = DocumentBegins();
  const DeviceInts device_begins(backend, begins);
  const DocumentStarts documents{.starts = device_begins, .sequence = kSequence};
  const TypedArray table(backend, dtype, Random(dtype, kSequence * kWidth, 2));
  const Doubles whole = Random(dtype, kSamples * kSequence * kWidth, 1);
  for (const SequencePart& part : kParts) {
    SCOPED_TRACE(base::Concat(part.num_tokens, " tokens of each sample"));
    const Doubles rows = RowsOf(part, whole);
    Doubles rotated, positioned;  // each row apart, as a token of a sample without documents
    for (int64_t row = 0; row < kSamples * part.num_tokens; ++row) {
      const Doubles one(rows.begin() + row * kWidth, rows.begin() + (row + 1) * kWidth);
      const SequencePart alone{1, {.late_shift = PositionOf(part, begins, row)}};
      for (const double value : Rotated(backend, dtype, alone, one)) rotated.push_back(value);
      for (const double value : WithPositions(backend, dtype, alone, table, one, 0)) {
        positioned.push_back(value);
      }
    }
    EXPECT_EQ(Rotated(backend, dtype, part, rows, documents), rotated);
    for (const int64_t first_row : {int64_t{0}, part.num_tokens / 2, part.num_tokens + 1}) {
      EXPECT_EQ(WithPositions(backend, dtype, part, table, rows, first_row, documents),
                Doubles(positioned.begin() + first_row * kWidth, positioned.end()));
    }
    ExpectTableGradient(backend, dtype, part, rows, begins, documents);
  }
}

void ExpectRowsAreCopied(Backend& backend, DType from, DType to) {
  constexpr int64_t kBlocks = 3, kRows = 5;
  for (const int64_t width : {1, 7, 64}) {
    const int64_t from_row = width + 8, to_row = width + 16;
    const Doubles x = Random(from, kBlocks * kRows * from_row, 4);
    const TypedArray source(backend, from, x);
    // Blocks beside each other and backwards, rows of each kBlocks apart.
    const TypedArray target(backend, to, Doubles(kBlocks * kRows * to_row, 7));
    backend.CopyRows({.x = source,
                      .y = target.At((kBlocks - 1) * to_row),
                      .num_blocks = kBlocks,
                      .num_rows = kRows,
                      .width = width,
                      .x_strides = {.block = kRows * from_row, .row = from_row},
                      .y_strides = {.block = -to_row, .row = kBlocks * to_row}});
    Doubles expected(kBlocks * kRows * to_row, 7);
    for (int64_t block = 0; block < kBlocks; ++block) {
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t c = 0; c < width; ++c) {
          const double value = x[(block * kRows + row) * from_row + c];
          expected[(row * kBlocks + kBlocks - 1 - block) * to_row + c] =
              FromBits(to, BitsOf(to, value));
        }
      }
    }
    EXPECT_EQ(target.Values(), expected) << "width " << width;
  }
}

}  // namespace tessera::kernels::testing
