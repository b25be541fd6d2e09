#include <algorithm>

#include "kernels/cpu/add_into.h"
#include "kernels/cpu/cpu_backend.h"

namespace tessera::kernels {
void CpuBackend::DoEmbeddingForward(const EmbeddingForwardArgs& args) {
  const int32_t* const tokens = args.tokens.As<int32_t>();
  const float* const table = args.table.As<float>();
  float* const out = args.out.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t index = tokens[row] - args.vocab_begin;
      float* const destination = out + row * args.width;
      if (index >= 0 && index < args.num_vocab_rows) {
        std::copy_n(table + index * args.width, args.width, destination);
      } else {
        std::fill_n(destination, args.width, 0.0F);
      }
    }
  });
}

// A token may stand in many rows, so threads share out the columns: each adds all rows in order.
void CpuBackend::DoEmbeddingBackward(const EmbeddingBackwardArgs& args) {
  const int32_t* const tokens = args.tokens.As<int32_t>();
  const float* const dout = args.dout.As<float>();
  float* const dtable = args.dtable.As<float>();
  const int64_t grain = std::max(kLineFloats, base::CeilDiv(kElementGrain, args.num_rows));
  pool_.ForRanges(args.width, grain, kLineFloats, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < args.num_rows; ++row) {
      const int64_t index = tokens[row] - args.vocab_begin;
      if (index < 0 || index >= args.num_vocab_rows) continue;
      AddInto(dout + row * args.width + begin, dtable + index * args.width + begin, end - begin);
    }
  });
}

void CpuBackend::DoPositionForward(const PositionForwardArgs& args) {
  const float* const table = args.table.As<float>();
  float* const x = args.x.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position = (args.first_row + row) % args.sequence;
      AddInto(table + position * args.width, x + row * args.width, args.width);
    }
  });
}

// Threads share out the positions; the rows of one position are added in order.
void CpuBackend::DoPositionBackward(const PositionBackwardArgs& args) {
  const float* const dx = args.dx.As<float>();
  float* const dtable = args.dtable.As<float>();
  pool_.ForRanges(args.sequence, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t position = begin; position < end; ++position) {
      const int64_t shift = (position - args.first_row) % args.sequence;
      const int64_t first_row = shift < 0 ? shift + args.sequence : shift;
      for (int64_t row = first_row; row < args.num_rows; row += args.sequence) {
        AddInto(dx + row * args.width, dtable + position * args.width, args.width);
      }
    }
  });
}

}  // namespace tessera::kernels
