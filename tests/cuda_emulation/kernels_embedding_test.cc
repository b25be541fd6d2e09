// Token, position and rotary embeddings on the device.
#include <cmath>

#include "cost_model/base/check.h"
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

std::vector<int32_t> RandomTokens(int64_t n, int32_t vocab_size, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int32_t> uniform(0, vocab_size - 1);
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens) token = uniform(generator);
  return tokens;
}

constexpr int64_t kWidths[] = {1, 7, 33, 257, 1000, 1032};

// The slices that a vocabulary of 30 is tested in.
struct VocabSlice {
  int64_t begin, num_rows;

  bool Holds(int64_t token) const { return token >= begin && token < begin + num_rows; }
};
constexpr int32_t kVocabSize = 30;
constexpr VocabSlice kSlices[] = {{0, kVocabSize}, {10, 10}, {20, 10}, {12, 0}};

class EmbeddingKernelTest : public KernelTest {};

TEST_P(EmbeddingKernelTest, ForwardTakesTheRowsHeldHereAndZeros) {
  for (const VocabSlice& slice : kSlices) {
    for (const int64_t width : kWidths) {
      const int64_t num_rows = 19;
      const auto tokens = RandomTokens(num_rows, kVocabSize, 1);
      const Doubles table = Random(slice.num_rows * width, 2);
      const DeviceArray device_table = Upload(table), out = Poison(num_rows * width);
      const DeviceInts device_tokens(tokens);
      EmbeddingForward(stream(), {.tokens = device_tokens,
                                  .table = device_table,
                                  .out = out,
                                  .num_rows = num_rows,
                                  .width = width,
                                  .vocab_begin = slice.begin,
                                  .num_vocab_rows = slice.num_rows});
      Doubles expected(num_rows * width, 0.0);
      for (int64_t i = 0; i < num_rows * width; ++i) {
        const int64_t token = tokens[i / width];
        if (slice.Holds(token)) expected[i] = table[(token - slice.begin) * width + i % width];
      }
      EXPECT_EQ(out.Values(), expected) << width << " from " << slice.begin;
    }
  }
}

// What adding the rows one by one, in order and in fp32, makes of a table.
Doubles AddRowsInOrder(const Doubles& table, const std::vector<int32_t>& tokens,
                       const VocabSlice& slice, int64_t width, const Doubles& dout) {
  Doubles sums = Rounded(DType::kFloat32, table);
  for (size_t i = 0; i < dout.size(); ++i) {
    const int64_t token = tokens[i / width];
    if (!slice.Holds(token)) continue;
    double& sum = sums[(token - slice.begin) * width + i % width];
    sum = static_cast<float>(sum) + static_cast<float>(dout[i]);
  }
  return sums;
}

// To the last bit: the order of additions is part of what the operation promises.
TEST_P(EmbeddingKernelTest, BackwardAddsTheRowsOfATokenInAscendingOrder) {
  for (const int64_t num_rows : {1, 2, 37, 500}) {
    for (const VocabSlice& slice : kSlices) {
      for (const int64_t width : {1, 7, 33, 264}) {
        const auto tokens = RandomTokens(num_rows, kVocabSize, 1);
        const Doubles dout = Random(num_rows * width, 2);
        const Doubles before = RandomDoubles(slice.num_rows * width, 3);
        const auto found = InAllOrders([&]() -> std::vector<Doubles> {
          const DeviceArray device_dout = Upload(dout), dtable = Floats(before);
          const DeviceInts device_tokens(tokens);
          EmbeddingBackward(stream(), {.tokens = device_tokens,
                                       .dout = device_dout,
                                       .dtable = dtable,
                                       .num_rows = num_rows,
                                       .width = width,
                                       .vocab_begin = slice.begin,
                                       .num_vocab_rows = slice.num_rows});
          return {dtable.Values()};
        });
        EXPECT_EQ(found[0], AddRowsInOrder(before, tokens, slice, width, dout))
            << num_rows << " x " << width << " from " << slice.begin;
      }
    }
  }
}

// More rows than are sorted at once, and scratch for one tile of them; most rows hold one token.
TEST_P(EmbeddingKernelTest, BackwardAddsTilesOfRowsInOrder) {
  const int64_t num_rows = 2 * 4096 + 77, width = 4;
  const VocabSlice slice{0, kVocabSize};
  auto tokens = RandomTokens(num_rows, kVocabSize, 1);
  for (int64_t i = 0; i < num_rows; i += 2) tokens[i] = 5;
  const Doubles dout = Random(num_rows * width, 2), before(kVocabSize * width, 0.0);
  const TestStream small_stream(4096 * 8);
  for (const LaunchContext& context : {stream(), static_cast<const LaunchContext&>(small_stream)}) {
    const DeviceArray device_dout = Upload(dout), dtable = Floats(before);
    const DeviceInts device_tokens(tokens);
    EmbeddingBackward(context, {.tokens = device_tokens,
                                .dout = device_dout,
                                .dtable = dtable,
                                .num_rows = num_rows,
                                .width = width,
                                .vocab_begin = 0,
                                .num_vocab_rows = kVocabSize});
    EXPECT_EQ(dtable.Values(), AddRowsInOrder(before, tokens, slice, width, dout));
  }
}

struct Positions {
  int64_t num_rows, sequence, first_row;
};
constexpr Positions kPositions[] = {{1, 1, 0}, {6, 6, 0}, {21, 7, 0}, {9, 4, 3}, {3, 8, 30}};

TEST_P(EmbeddingKernelTest, PositionsAreAddedToTheirRows) {
  for (const auto& [num_rows, sequence, first_row] : kPositions) {
    for (const int64_t width : kWidths) {
      const Doubles table = Random(sequence * width, 1), x = Random(num_rows * width, 2);
      const DeviceArray device_table = Upload(table), device_x = Upload(x);
      PositionForward(stream(), {.table = device_table,
                                 .x = device_x,
                                 .num_rows = num_rows,
                                 .width = width,
                                 .first_row = first_row,
                                 .sequence = sequence});
      Doubles expected = x;
      for (int64_t i = 0; i < num_rows * width; ++i) {
        expected[i] += table[(first_row + i / width) % sequence * width + i % width];
      }
      ExpectClose(device_x.Values(), expected, tolerance(), base::Concat(num_rows, " x ", width));
    }
  }
}

TEST_P(EmbeddingKernelTest, PositionGradientsAccumulate) {
  for (const auto& [num_rows, sequence, first_row] : kPositions) {
    for (const int64_t width : kWidths) {
      const Doubles dx = Random(num_rows * width, 1);
      const Doubles before = RandomDoubles(sequence * width, 2);
      const auto found = InAllOrders([&]() -> std::vector<Doubles> {
        const DeviceArray device_dx = Upload(dx), dtable = Floats(before);
        PositionBackward(stream(), {.dx = device_dx,
                                    .dtable = dtable,
                                    .num_rows = num_rows,
                                    .width = width,
                                    .first_row = first_row,
                                    .sequence = sequence});
        return {dtable.Values()};
      });
      Doubles expected = Rounded(DType::kFloat32, before);
      for (int64_t i = 0; i < num_rows * width; ++i) {
        expected[(first_row + i / width) % sequence * width + i % width] += dx[i];
      }
      ExpectClose(found[0], expected, 1e-6, base::Concat(num_rows, " x ", width));
    }
  }
}

struct RopeShape {
  int64_t num_rows, sequence, num_heads, head_dim;
  int64_t padding = 0;  // of a row, in elements; NaN that must stay
  int64_t offset = 0;
};
// With and without accesses of 16 bytes; half a head less and more than one launch turns.
constexpr RopeShape kRopeShapes[] = {{1, 1, 1, 2},      {5, 5, 3, 6},        {12, 4, 5, 64, 64},
                                     {7, 7, 2, 128, 3}, {3, 3, 2, 64, 0, 1}, {4, 2, 2, 256},
                                     {3, 3, 1, 336},    {9, 3, 40, 16},      {3000, 3000, 1, 8}};

class RopeKernelTest : public KernelTest {
 protected:
  // The dense q and k that rotation leaves behind.
  Doubles Rotate(const RopeShape& shape, const Doubles& qk, const Doubles& frequencies,
                 bool inverse) {
    const int64_t width = shape.num_heads * shape.head_dim;
    const int64_t stride = width + shape.padding;
    Doubles padded(shape.num_rows * stride, std::nan(""));
    for (int64_t i = 0; i < shape.num_rows * width; ++i) {
      padded[i / width * stride + i % width] = qk[i];
    }
    const auto found = InAllOrders([&]() -> std::vector<Doubles> {
      const DeviceArray device_qk = Upload(padded, shape.offset);
      Rope(stream(), {.qk = device_qk,
                      .inverse_frequency = frequencies.data(),
                      .num_rows = shape.num_rows,
                      .sequence = shape.sequence,
                      .num_heads = shape.num_heads,
                      .head_dim = shape.head_dim,
                      .stride = stride,
                      .inverse = inverse});
      return {device_qk.Values()};
    });
    Doubles dense;
    for (int64_t i = 0; i < shape.num_rows * stride; ++i) {
      const bool is_padding = i % stride >= width;
      if (!is_padding) dense.push_back(found[0][i]);
      EXPECT_TRUE(!is_padding || std::isnan(found[0][i])) << "padding was written at " << i;
    }
    return dense;
  }
};

TEST_P(RopeKernelTest, TurnsPairsByTheirPosition) {
  for (const RopeShape& shape : kRopeShapes) {
    const int64_t half = shape.head_dim / 2;
    Doubles frequencies(half);
    for (int64_t i = 0; i < half; ++i) {
      frequencies[i] = std::pow(1e4, -static_cast<double>(i) / static_cast<double>(half));
    }
    frequencies[0] = 731.25;  // millions of radians at the late positions
    const Doubles qk = Random(shape.num_rows * shape.num_heads * shape.head_dim, 1);
    for (const bool inverse : {false, true}) {
      ExpectClose(
          Rotate(shape, qk, frequencies, inverse),
          reference::Rope(shape.num_rows, shape.sequence, shape.num_heads, shape.head_dim, qk,
                          frequencies, inverse ? -1 : 1),
          tolerance(),
          base::Concat(shape.num_rows, " rows, head_dim ", shape.head_dim, ", inverse ", inverse));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EmbeddingKernelTest, kFloatTypes, TypeName);
INSTANTIATE_TEST_SUITE_P(Types, RopeKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
