#include <limits>

#include "kernels/cpu/add_into.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/grouped_matmul.h"

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

// Products of other types than fp32 are taken in pieces of at most this many rows, columns and
// terms: three of them in fp32 (1.8 MB) stay in the cache of a core. The BLAS spends some 768
// operations on every element that is converted.
constexpr int64_t kPieceSide = 384;

int64_t PieceSide(const MatMulArgs& args) {
  const auto is_in_place = [](const ConstArray& x) {
    return x.dtype == base::DType::kFloat32 || !x;
  };
  const bool is_all = is_in_place(args.a) && is_in_place(args.b) && is_in_place(args.c);
  return is_all ? std::numeric_limits<int64_t>::max() : kPieceSide;
}

// compute(piece) over the pieces of a tile.
template <typename Compute>
void ForPieces(const Tile& tile, int64_t side, const Compute& compute) {
  for (int64_t row = 0; row < tile.num_rows; row += std::min(side, tile.num_rows)) {
    for (int64_t col = 0; col < tile.num_cols; col += std::min(side, tile.num_cols)) {
      compute(Tile{tile.row + row, tile.col + col, std::min(side, tile.num_rows - row),
                   std::min(side, tile.num_cols - col)});
    }
  }
}

// c = beta * c + the terms [first, first + count) of the products of a tile.
void MultiplyTerms(const MatMulArgs& args, const Tile& tile, int64_t first, int64_t count,
                   float beta, const MutableRows& c, ThreadMemory& memory) {
  const bool is_a_transposed = args.layout == MatMulLayout::kTN;
  const bool is_b_transposed = args.layout == MatMulLayout::kNT;
  const Rows a =
      is_a_transposed
          ? memory.a.Read(args.a.At(first * args.lda + tile.row), args.lda, count, tile.num_rows)
          : memory.a.Read(args.a.At(tile.row * args.lda + first), args.lda, tile.num_rows, count);
  const Rows b =
      is_b_transposed
          ? memory.b.Read(args.b.At(tile.col * args.ldb + first), args.ldb, tile.num_cols, count)
          : memory.b.Read(args.b.At(first * args.ldb + tile.col), args.ldb, count, tile.num_cols);
  Gemm({.transpose_a = is_a_transposed ? Transpose::kYes : Transpose::kNo,
        .transpose_b = is_b_transposed ? Transpose::kYes : Transpose::kNo,
        .m = tile.num_rows,
        .n = tile.num_cols,
        .k = count,
        .a = a.data,
        .lda = a.stride,
        .b = b.data,
        .ldb = b.stride,
        .beta = beta,
        .c = c.data,
        .ldc = c.stride});
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

void ApplyEpilogue(const MatMulArgs& args, const Tile& tile, const MutableRows& result,
                   ThreadMemory& memory) {
  if (args.epilogue == Epilogue::kNone) return;
  const float* const bias = memory.c.Read(args.bias.At(tile.col), tile.num_cols);
  for (int64_t i = 0; i < tile.num_rows; ++i) {
    float* const c = result.data + i * result.stride;
    const Array aux = args.aux.At((tile.row + i) * args.ldc + tile.col);
    switch (args.epilogue) {
      case Epilogue::kNone:
        break;
      case Epilogue::kBias:
        AddInto(bias, c, tile.num_cols);
        break;
      case Epilogue::kBiasGelu:
        if (bias != nullptr) AddInto(bias, c, tile.num_cols);
        KeepAndApplyGelu(c, memory.second_result.Open(aux, tile.num_cols), tile.num_cols);
        memory.second_result.Store();
        break;
      case Epilogue::kGeluGrad:
        MultiplyByGeluGrad(c, memory.d.Read(aux, tile.num_cols), tile.num_cols);
        break;
    }
  }
}

// Rounds a 16-bit result once, behind the epilogue.
void ComputePiece(const MatMulArgs& args, const Tile& piece, int64_t num_terms,
                  ThreadMemory& memory) {
  const Array target = args.c.At(piece.row * args.ldc + piece.col);
  const MutableRows c = args.accumulate
                            ? memory.result.Load(target, args.ldc, piece.num_rows, piece.num_cols)
                            : memory.result.Open(target, args.ldc, piece.num_rows, piece.num_cols);
  for (int64_t first = 0; first < args.k; first += num_terms) {
    const float beta = args.accumulate || first > 0 ? 1.0F : 0.0F;
    MultiplyTerms(args, piece, first, std::min(num_terms, args.k - first), beta, c, memory);
  }
  ApplyEpilogue(args, piece, c, memory);
  memory.result.Store();
}

void CheckBlasSizes(const MatMulArgs& args) {
  constexpr int64_t kLargest = std::numeric_limits<int>::max();
  TESSERA_CHECK(args.m <= kLargest && args.n <= kLargest && args.k <= kLargest &&
                    args.lda <= kLargest && args.ldb <= kLargest && args.ldc <= kLargest,
                "BLAS counts in 32 bits: m ", args.m, " n ", args.n, " k ", args.k);
}

void ComputeTile(const MatMulArgs& args, const Tile& tile, ThreadMemory& memory) {
  const int64_t side = PieceSide(args);
  ForPieces(tile, side,
            [&](const Tile& piece) { ComputePiece(args, piece, std::min(side, args.k), memory); });
}

int64_t WorkOf(const MatMulArgs& args) { return args.m * args.n * args.k; }

// Tiles of a grouped product for each thread: groups differ in size, and few tiles do not share out
// evenly.
constexpr int64_t kGroupedTilesPerThread = 4;

}  // namespace

void CpuBackend::DoMatMul(const MatMulArgs& args) {
  CheckBlasSizes(args);
  PrepareBlas();
  const TileGrid grid = ChooseGrid(args.m, args.n, args.k, pool_.num_threads());
  pool_.ForEachTask(grid.NumTiles(), [&](int thread, int64_t index) {
    ComputeTile(args, grid.At(index, args.m, args.n), thread_memory_[thread]);
  });
}

// The tiles of all groups are one list of tasks.
void CpuBackend::DoGroupedMatMul(const GroupedMatMulArgs& args) {
  struct TileOfProduct {
    const MatMulArgs* product;
    Tile tile;
  };
  const std::vector<MatMulArgs> products = ProductsOf(args);
  PrepareBlas();
  const int64_t num_threads = pool_.num_threads();
  const int64_t work_of_tile =
      base::CeilDiv(args.m * args.n * args.k, kGroupedTilesPerThread * num_threads);
  std::vector<TileOfProduct> tiles;
  for (const MatMulArgs& product : products) {
    CheckBlasSizes(product);
    const int64_t num_tiles = num_threads == 1 ? 1 : base::CeilDiv(WorkOf(product), work_of_tile);
    const TileGrid grid = ChooseGrid(product.m, product.n, product.k, static_cast<int>(num_tiles));
    for (int64_t i = 0; i < grid.NumTiles(); ++i) {
      tiles.push_back({&product, grid.At(i, product.m, product.n)});
    }
  }
  pool_.ForEachTask(static_cast<int64_t>(tiles.size()), [&](int thread, int64_t index) {
    ComputeTile(*tiles[index].product, tiles[index].tile, thread_memory_[thread]);
  });
}

}  // namespace tessera::kernels
