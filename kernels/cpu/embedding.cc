#include <algorithm>
#include <cstring>

#include "kernels/cpu/add_into.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"

namespace tessera::kernels {
namespace {

// Of a row that PositionForward or PositionBackward takes.
template <typename Args>
int64_t PositionOfRow(const Args& args, int64_t row) {
  const int64_t index = args.first_row + row;
  return args.documents.PositionOf(index / args.sequence, args.positions.Of(index % args.sequence));
}

}  // namespace

void CpuBackend::DoEmbeddingForward(const EmbeddingForwardArgs& args) {
  const int32_t* const tokens = args.tokens.As<int32_t>();
  TESSERA_CHECK(!args.table || args.table.dtype == args.out.dtype, "table of ",
                base::ToString(args.table.dtype), ", rows of ", base::ToString(args.out.dtype));
  const int64_t row_bytes = args.width * base::SizeBytes(args.out.dtype);
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t index = tokens[row] - args.vocab_begin;
      void* const destination = args.out.At(row * args.width).data;
      if (index >= 0 && index < args.num_vocab_rows) {
        std::memcpy(destination, args.table.At(index * args.width).data, row_bytes);
      } else {
        std::memset(destination, 0, row_bytes);  // the bits of 0 in every type
      }
    }
  });
}

// A token may stand in many rows, so threads share out the columns: each adds all rows in order.
void CpuBackend::DoEmbeddingBackward(const EmbeddingBackwardArgs& args) {
  const int32_t* const tokens = args.tokens.As<int32_t>();
  float* const dtable = args.dtable.As<float>();
  const int64_t grain = std::max(kLineFloats, base::CeilDiv(kElementGrain, args.num_rows));
  pool_.ForRanges(args.width, grain, kLineFloats, [&](int64_t begin, int64_t end) {
    RowReader dout;
    for (int64_t row = 0; row < args.num_rows; ++row) {
      const int64_t index = tokens[row] - args.vocab_begin;
      if (index < 0 || index >= args.num_vocab_rows) continue;
      AddInto(dout.Read(args.dout.At(row * args.width + begin), end - begin),
              dtable + index * args.width + begin, end - begin);
    }
  });
}

void CpuBackend::DoPositionForward(const PositionForwardArgs& args) {
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    RowReader table;
    RowWriter x;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position = PositionOfRow(args, row);
      AddInto(table.Read(args.table.At(position * args.width), args.width),
              x.Load(args.x.At(row * args.width), args.width), args.width);
      x.Store();
    }
  });
}

// Threads share out the positions; the rows of one position are added in order. With documents any
// row may have any position, so threads share out the columns.
void CpuBackend::DoPositionBackward(const PositionBackwardArgs& args) {
  float* const dtable = args.dtable.As<float>();
  if (args.documents.starts) {
    const int64_t grain = std::max(kLineFloats, base::CeilDiv(kElementGrain, args.num_rows));
    return pool_.ForRanges(args.width, grain, kLineFloats, [&](int64_t begin, int64_t end) {
      RowReader dx;
      for (int64_t row = 0; row < args.num_rows; ++row) {
        AddInto(dx.Read(args.dx.At(row * args.width + begin), end - begin),
                dtable + PositionOfRow(args, row) * args.width + begin, end - begin);
      }
    });
  }
  pool_.ForRanges(args.sequence, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    RowReader dx;
    for (int64_t token = begin; token < end; ++token) {
      float* const sums = dtable + args.positions.Of(token) * args.width;
      const int64_t shift = (token - args.first_row) % args.sequence;
      const int64_t first_row = shift < 0 ? shift + args.sequence : shift;
      for (int64_t row = first_row; row < args.num_rows; row += args.sequence) {
        AddInto(dx.Read(args.dx.At(row * args.width), args.width), sums, args.width);
      }
    }
  });
}

}  // namespace tessera::kernels
