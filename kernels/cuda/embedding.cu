// Token and position embeddings. The gradient of a table's row is a sum over the rows that hold its
// token, in ascending order: the tokens are sorted, tile by tile, then each run of equal ones is
// summed by the threads that own its columns.
#include "kernels/cuda/documents.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

// Where a token lies in the slice of the vocabulary that is held here; outside of [0, num_rows) it
// belongs to another rank.
struct VocabSlice {
  int64_t begin, num_rows;

  __device__ __forceinline__ int64_t IndexOf(int32_t token) const { return token - begin; }
  __device__ __forceinline__ bool Holds(int64_t index) const {
    return index >= 0 && index < num_rows;
  }
};

template <typename T>
struct EmbeddingForwardOp {
  const int32_t* __restrict__ tokens;
  const T* __restrict__ table;
  T* __restrict__ out;
  int64_t width;
  VocabSlice slice;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    const int64_t index = slice.IndexOf(tokens[row]);
    Packed<T, kSize> values = {};
    if (slice.Holds(index)) values = LoadPacked<kSize>(table + index * width + column);
    StorePacked<kSize>(values, out + row * width + column);
  }
};

// Rows that are sorted at once by one block, in shared memory.
constexpr int kTileRows = 4096;
constexpr int kSortThreads = 512;
constexpr uint64_t kNoKey = ~uint64_t{0};

// The index of a token above the row that it stands in, so that equal tokens stay in order.
constexpr int kRowBits = 32;

// Which row of a table a row of a batch takes: its token's in a slice of the vocabulary.
struct WordOfRow {
  const int32_t* __restrict__ tokens;
  VocabSlice slice;

  __device__ __forceinline__ int64_t IndexOf(int64_t row) const {
    return slice.IndexOf(tokens[row]);
  }
  __device__ __forceinline__ bool Holds(int64_t index) const { return slice.Holds(index); }
};

// Or its position's.
struct PositionOfRow {
  uint32_t first_row, sequence;
  base::TokenPositions positions;
  DocumentRule documents;

  __device__ __forceinline__ int64_t IndexOf(int64_t row) const {
    const uint32_t index = first_row + static_cast<uint32_t>(row);
    const uint32_t sample = index / sequence;
    return documents.PositionOf(sample, PositionOf(positions, index - sample * sequence));
  }
  __device__ __forceinline__ bool Holds(int64_t /*index*/) const { return true; }
};

// Sorts the keys of each tile of rows (Batcher's bitonic network): the keys of rows that take
// another rank's come last, as kNoKey. tile_size is a power of two. keys: [num_tiles][tile_size].
template <typename OfRow>
__global__ void __launch_bounds__(kSortThreads)
    SortRowsKernel(OfRow of_row, int64_t first, int64_t num_rows, int tile_size,
                   uint64_t* __restrict__ keys) {
  __shared__ uint64_t tile[kTileRows];
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * tile_size;
  for (int i = static_cast<int>(threadIdx.x); i < tile_size; i += kSortThreads) {
    const int64_t row = first_row + i;
    const int64_t index = row < num_rows ? of_row.IndexOf(first + row) : -1;
    tile[i] = row < num_rows && of_row.Holds(index)
                  ? (static_cast<uint64_t>(index) << kRowBits) | static_cast<uint64_t>(row)
                  : kNoKey;
  }
  __syncthreads();
  for (int run = 2; run <= tile_size; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      for (int pair = static_cast<int>(threadIdx.x); pair < tile_size / 2; pair += kSortThreads) {
        const int low = 2 * pair - pair % distance;
        const int high = low + distance;
        const bool ascends = (low & run) == 0;
        const uint64_t a = tile[low];
        const uint64_t b = tile[high];
        if ((a > b) == ascends) {
          tile[low] = b;
          tile[high] = a;
        }
      }
      __syncthreads();
    }
  }
  for (int i = static_cast<int>(threadIdx.x); i < tile_size; i += kSortThreads) {
    keys[first_row + i] = tile[i];
  }
}

// Run(i, column): where key i is the first of its index, adds the index's rows to the table.
template <typename T>
struct AddSortedRowsOp {
  const uint64_t* __restrict__ keys;  // of one tile
  const T* __restrict__ dout;
  float* __restrict__ dtable;
  int64_t width, num_keys;

  // Rows of one index whose loads are under way at once: a frequent token has thousands.
  static constexpr int kRowsAhead = 8;

  template <int kSize>
  __device__ void Run(int64_t i, int64_t column) const {
    if (keys[i] == kNoKey) return;
    const uint64_t index = keys[i] >> kRowBits;
    if (i > 0 && keys[i - 1] >> kRowBits == index) return;
    float* const sums_at = dtable + static_cast<int64_t>(index) * width + column;
    float sums[kSize];
    Load<kSize>(sums_at, sums);
    bool goes_on = true;
    for (int64_t first = i; goes_on; first += kRowsAhead) {
      Packed<T, kSize> rows[kRowsAhead];
#pragma unroll
      for (int k = 0; k < kRowsAhead; ++k) {
        const uint64_t key = first + k < num_keys ? keys[first + k] : kNoKey;
        goes_on = key >> kRowBits == index;
        // Zeros behind the index's last row.
        rows[k] =
            goes_on ? LoadPacked<kSize>(dout + RowOf(key) * width + column) : Packed<T, kSize>{};
      }
#pragma unroll
      for (int k = 0; k < kRowsAhead; ++k) {
        float values[kSize];
        Unpack(rows[k], values);
#pragma unroll
        for (int j = 0; j < kSize; ++j) sums[j] += values[j];
      }
    }
    Store<kSize>(sums, sums_at);
  }

  static __device__ __forceinline__ int64_t RowOf(uint64_t key) {
    return static_cast<int64_t>(key & ((uint64_t{1} << kRowBits) - 1));
  }
};

template <typename T>
struct PositionForwardOp {
  const T* __restrict__ table;
  T* __restrict__ x;
  int64_t width;
  PositionOfRow position_of;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    float values[kSize], terms[kSize];
    Load<kSize>(x + row * width + column, values);
    Load<kSize>(table + position_of.IndexOf(row) * width + column, terms);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] += terms[j];
    Store<kSize>(values, x + row * width + column);
  }
};

// Run(token, column): adds all rows of a token of the sequence, in whichever sample.
template <typename T>
struct PositionBackwardOp {
  const T* __restrict__ dx;
  float* __restrict__ dtable;
  int64_t num_rows, width, first_token, sequence;
  base::TokenPositions positions;

  template <int kSize>
  __device__ void Run(int64_t token, int64_t column) const {
    const int64_t position = PositionOf(positions, token);
    int64_t row = token - first_token;  // its first
    if (row < 0) row += sequence;
    if (row >= num_rows) return;
    float sums[kSize], values[kSize];
    Load<kSize>(dtable + position * width + column, sums);
#pragma unroll 4
    for (; row < num_rows; row += sequence) {
      Load<kSize>(dx + row * width + column, values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sums[j] += values[j];
    }
    Store<kSize>(sums, dtable + position * width + column);
  }
};

template <typename T>
struct RowSums {
  const T* dout;  // [num_rows, width]
  float* dtable;  // [indices, width]
  int64_t num_rows, width;
};

// Sorts as many tiles as the scratch has room for, then adds them one after the other.
template <typename T, typename OfRow>
void LaunchRowSums(const LaunchContext& context, const char* name, const RowSums<T>& rows,
                   const OfRow& of_row) {
  constexpr int kSize = kVectorSize<float>;  // of the sums
  const bool vectorize = CanVectorize(kSize, {rows.dout, rows.dtable}, {rows.width});
  auto* const keys = static_cast<uint64_t*>(context.scratch);
  int64_t tile_size = 2;
  while (tile_size < std::min(rows.num_rows, int64_t{kTileRows})) tile_size *= 2;
  const int64_t tile_bytes = tile_size * static_cast<int64_t>(sizeof(uint64_t));
  const int64_t most_tiles = context.scratch_bytes / tile_bytes;
  TESSERA_CHECK(most_tiles > 0, "scratch of ", context.scratch_bytes, " bytes");
  for (int64_t begin = 0; begin < rows.num_rows; begin += most_tiles * tile_size) {
    const int64_t num_rows = std::min(rows.num_rows - begin, most_tiles * tile_size);
    const int64_t num_tiles = base::CeilDiv(num_rows, tile_size);
    Launch("sort of rows", SortRowsKernel<OfRow>,
           {dim3(static_cast<unsigned>(num_tiles)), dim3(kSortThreads)}, context.stream, of_row,
           begin, num_rows, static_cast<int>(tile_size), keys);
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      LaunchRows<kSize>(context, name, tile_size, rows.width, vectorize,
                        AddSortedRowsOp<T>{keys + tile * tile_size, rows.dout + begin * rows.width,
                                           rows.dtable, rows.width, tile_size});
    }
  }
}

template <typename Args>
PositionOfRow PositionOfRowIn(const Args& args) {
  constexpr int64_t kMostRows = int64_t{1} << 31;  // divisions of 32 bits are far shorter
  TESSERA_CHECK(args.first_row + args.num_rows <= kMostRows && args.sequence <= kMostRows,
                args.num_rows, " rows");
  return {static_cast<uint32_t>(args.first_row), static_cast<uint32_t>(args.sequence),
          args.positions, DocumentRuleOf(args.documents)};
}

}  // namespace

void EmbeddingForward(const LaunchContext& context, const EmbeddingForwardArgs& args) {
  WithFloatType(args.out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    LaunchRows<kSize>(context, "embedding", args.num_rows, args.width,
                      CanVectorize(kSize, {args.table.data, args.out.data}, {args.width}),
                      EmbeddingForwardOp<T>{args.tokens.As<int32_t>(),
                                            args.table.As<T>(),
                                            args.out.As<T>(),
                                            args.width,
                                            {args.vocab_begin, args.num_vocab_rows}});
  });
}

void EmbeddingBackward(const LaunchContext& context, const EmbeddingBackwardArgs& args) {
  if (args.num_vocab_rows == 0) return;
  WithFloatType(args.dout.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchRowSums(context, "embedding backward",
                  RowSums<T>{args.dout.As<T>(), args.dtable.As<float>(), args.num_rows, args.width},
                  WordOfRow{args.tokens.As<int32_t>(), {args.vocab_begin, args.num_vocab_rows}});
  });
}

void PositionForward(const LaunchContext& context, const PositionForwardArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    LaunchRows<kSize>(context, "position embedding", args.num_rows, args.width,
                      CanVectorize(kSize, {args.table.data, args.x.data}, {args.width}),
                      PositionForwardOp<T>{args.table.As<T>(), args.x.As<T>(), args.width,
                                           PositionOfRowIn(args)});
  });
}

void PositionBackward(const LaunchContext& context, const PositionBackwardArgs& args) {
  WithFloatType(args.dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (args.documents.starts) {  // any row may have any position
      return LaunchRowSums(
          context, "position embedding backward",
          RowSums<T>{args.dx.As<T>(), args.dtable.As<float>(), args.num_rows, args.width},
          PositionOfRowIn(args));
    }
    constexpr int kSize = kVectorSize<float>;  // of the sums
    LaunchRows<kSize>(
        context, "position embedding backward", args.sequence, args.width,
        CanVectorize(kSize, {args.dx.data, args.dtable.data}, {args.width}),
        PositionBackwardOp<T>{args.dx.As<T>(), args.dtable.As<float>(), args.num_rows, args.width,
                              args.first_row % args.sequence, args.sequence, args.positions});
  });
}

}  // namespace tessera::kernels::cuda
