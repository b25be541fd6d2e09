#include <limits>

#include "kernels/cpu/add_into.h"
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

// How c[m, n] is cut into equal tiles.
struct TileGrid {
  int64_t tile_rows = 0, tile_cols = 0, num_row_tiles = 0, num_col_tiles = 0;

  int64_t NumTiles() const { return num_row_tiles * num_col_tiles; }
  Tile At(int64_t index, int64_t m, int64_t n) const {
    const int64_t row = index / num_col_tiles * tile_rows;
    const int64_t col = index % num_col_tiles * tile_cols;
    return {row, col, std::min(tile_rows, m - row), std::min(tile_cols, n - col)};
  }
};

// Multiples of the micro-kernels of the AVX2 and AVX-512 BLAS builds (up to 48 wide).
constexpr int64_t kRowUnit = 16;
constexpr int64_t kColUnit = 48;
// Below this many multiply-adds a tile is not worth the wake-up of a thread.
constexpr int64_t kMinTileWork = int64_t{1} << 19;
// From this many on (some 40 ms) tiles are cut finer than the number of threads asks for, so that a
// thread which lost its core to others does less.
constexpr int64_t kMaxTileWork = int64_t{1} << 31;
constexpr int64_t kMaxTilesPerThread = 4;

TileGrid MakeGrid(int64_t rows, int64_t cols, int64_t m, int64_t n) {
  const int64_t tile_rows = base::RoundUp(base::CeilDiv(m, rows), kRowUnit);
  const int64_t tile_cols = base::RoundUp(base::CeilDiv(n, cols), kColUnit);
  return {tile_rows, tile_cols, base::CeilDiv(m, tile_rows), base::CeilDiv(n, tile_cols)};
}

// Relative time of a grid. The BLAS packs the operands of each tile anew, which costs as much as
// kPackingCost more columns for a row of tiles, and as many more rows for a column of them:
// measured 9 % for tiles of 64 rows and 6 % for tiles of 192 columns.
double GridCost(const TileGrid& grid, int num_threads) {
  constexpr double kPackingCost = 8;
  const auto num_rounds = static_cast<double>(base::CeilDiv(grid.NumTiles(), num_threads));
  const auto rows = static_cast<double>(grid.tile_rows);
  const auto cols = static_cast<double>(grid.tile_cols);
  return num_rounds * (rows * cols + kPackingCost * (rows + cols));
}

TileGrid ChooseGrid(int64_t m, int64_t n, int64_t k, int num_threads) {
  const TileGrid whole = {m, n, 1, 1};
  const int64_t work = m * n * k;
  if (num_threads == 1 || work < 2 * kMinTileWork) return whole;
  const int64_t tiles_per_thread =
      std::clamp(work / num_threads / kMaxTileWork, int64_t{1}, kMaxTilesPerThread);
  const int64_t num_tiles = std::min(num_threads * tiles_per_thread, work / kMinTileWork);
  TileGrid best = MakeGrid(1, num_tiles, m, n);
  for (int64_t rows = 2; rows <= num_tiles; ++rows) {
    const TileGrid grid = MakeGrid(rows, num_tiles / rows, m, n);
    if (GridCost(grid, num_threads) < GridCost(best, num_threads)) best = grid;
  }
  return best;
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

void KeepAndApplyGelu(float* c, float* aux, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    aux[j] = c[j];
    c[j] = Gelu(c[j]);
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
        AddInto(bias + tile.col, c, tile.num_cols);
        break;
      case Epilogue::kBiasGelu:
        if (bias != nullptr) AddInto(bias + tile.col, c, tile.num_cols);
        KeepAndApplyGelu(c, args.aux.As<float>() + offset, tile.num_cols);
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
  pool_.ForEachTask(grid.NumTiles(), [&](int, int64_t index) {
    const Tile tile = grid.At(index, args.m, args.n);
    MultiplyTile(args, tile);
    ApplyEpilogue(args, tile);
  });
}

}  // namespace tessera::kernels
