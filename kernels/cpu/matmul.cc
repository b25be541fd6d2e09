#include <limits>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels {
namespace {

using base::Epilogue;
using base::MatMulLayout;

// One block of c, computed by one thread.
struct Tile {
  int64_t row = 0, col = 0, num_rows = 0, num_cols = 0;
};

// How c[m, n] is cut. Each tile packs its share of a and b anew, so tiles are large and near
// square; they are also the unit of load balance, and what an epilogue finds in the cache.
struct TileGrid {
  int64_t tile_rows = 0, tile_cols = 0, num_row_tiles = 0, num_col_tiles = 0;

  Tile At(int64_t index, int64_t m, int64_t n) const {
    const int64_t row = index / num_col_tiles * tile_rows;
    const int64_t col = index % num_col_tiles * tile_cols;
    return {row, col, std::min(tile_rows, m - row), std::min(tile_cols, n - col)};
  }
};

// Multiples of the micro-kernels of the AVX2 and AVX-512 BLAS builds (up to 48 wide).
constexpr int64_t kRowUnit = 16;
constexpr int64_t kColUnit = 48;
constexpr int64_t kMaxTileRows = 512;
constexpr int64_t kMaxTileCols = 1536;
// Below this many multiply-adds a tile is not worth the wake-up of a thread.
constexpr int64_t kMinTileWork = int64_t{1} << 20;

TileGrid MakeGrid(int64_t rows, int64_t cols, int64_t m, int64_t n) {
  const int64_t tile_rows = base::RoundUp(base::CeilDiv(m, rows), kRowUnit);
  const int64_t tile_cols = base::RoundUp(base::CeilDiv(n, cols), kColUnit);
  return {tile_rows, tile_cols, base::CeilDiv(m, tile_rows), base::CeilDiv(n, tile_cols)};
}

TileGrid ChooseGrid(int64_t m, int64_t n, int64_t k, int num_threads) {
  if (num_threads == 1 || m * n * k < 2 * kMinTileWork) return {m, n, 1, 1};
  int64_t rows = base::CeilDiv(m, kMaxTileRows);
  int64_t cols = base::CeilDiv(n, kMaxTileCols);
  TileGrid grid = MakeGrid(rows, cols, m, n);
  while (grid.num_row_tiles * grid.num_col_tiles % num_threads != 0 &&
         grid.num_row_tiles * grid.num_col_tiles < 4 * num_threads) {
    const bool splits_rows = m / (rows + 1) >= kRowUnit;
    const bool splits_cols = n / (cols + 1) >= kColUnit;
    if (!splits_rows && !splits_cols) break;
    if (splits_rows && (!splits_cols || m * cols > n * rows)) {
      ++rows;
    } else {
      ++cols;
    }
    if (m * n / (rows * cols) * k < kMinTileWork) break;
    grid = MakeGrid(rows, cols, m, n);
  }
  return grid;
}

void MultiplyTile(const MatMulArgs& args, const Tile& tile) {
  const float* const a = args.a.As<float>();
  const float* const b = args.b.As<float>();
  const bool is_a_transposed = args.layout == MatMulLayout::kTN;
  const bool is_b_transposed = args.layout == MatMulLayout::kNT;
  Gemm({.transpose_a = is_a_transposed ? Transpose::kYes : Transpose::kNo,
        .transpose_b = is_b_transposed ? Transpose::kYes : Transpose::kNo,
        .m = tile.num_rows,
        .n = tile.num_cols,
        .k = args.k,
        .a = is_a_transposed ? a + tile.row : a + tile.row * args.lda,
        .lda = args.lda,
        .b = is_b_transposed ? b + tile.col * args.ldb : b + tile.col,
        .ldb = args.ldb,
        .beta = args.accumulate ? 1.0F : 0.0F,
        .c = args.c.As<float>() + tile.row * args.ldc + tile.col,
        .ldc = args.ldc});
}

void AddBias(float* c, const float* bias, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) c[j] += bias[j];
}

void AddBiasGelu(float* c, const float* bias, float* aux, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float x = c[j] + bias[j];
    aux[j] = x;
    c[j] = Gelu(x);
  }
}

void MultiplyByGeluGrad(float* c, const float* aux, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) c[j] *= GeluGrad(aux[j]);
}

void ApplyEpilogue(const MatMulArgs& args, const Tile& tile) {
  if (args.epilogue == Epilogue::kNone) return;
  const float* const bias = args.bias.As<float>();
  for (int64_t i = tile.row; i < tile.row + tile.num_rows; ++i) {
    const int64_t offset = i * args.ldc + tile.col;
    float* const c = args.c.As<float>() + offset;
    switch (args.epilogue) {
      case Epilogue::kNone:
        break;
      case Epilogue::kBias:
        AddBias(c, bias + tile.col, tile.num_cols);
        break;
      case Epilogue::kBiasGelu:
        AddBiasGelu(c, bias + tile.col, args.aux.As<float>() + offset, tile.num_cols);
        break;
      case Epilogue::kGeluGrad:
        MultiplyByGeluGrad(c, args.aux.As<float>() + offset, tile.num_cols);
        break;
    }
  }
}

}  // namespace

void CpuBackend::DoMatMul(const MatMulArgs& args) {
  constexpr int64_t kLargest = std::numeric_limits<int>::max();
  TESSERA_CHECK(args.m <= kLargest && args.n <= kLargest && args.k <= kLargest &&
                    args.lda <= kLargest && args.ldb <= kLargest && args.ldc <= kLargest,
                "BLAS counts in 32 bits: m ", args.m, " n ", args.n, " k ", args.k);
  PrepareBlas();
  const TileGrid grid = ChooseGrid(args.m, args.n, args.k, pool_.num_threads());
  pool_.ForEachTask(grid.num_row_tiles * grid.num_col_tiles, [&](int, int64_t index) {
    const Tile tile = grid.At(index, args.m, args.n);
    MultiplyTile(args, tile);
    ApplyEpilogue(args, tile);
  });
}

}  // namespace tessera::kernels
