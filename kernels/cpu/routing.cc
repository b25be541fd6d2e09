// Tokens on their way to the experts and back.
#include <algorithm>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"

namespace tessera::kernels {

void CpuBackend::DoTokenPermute(const TokenPermuteArgs& args) {
  const int32_t* const source_row = args.source_row.As<int32_t>();
  const float* const scale = args.scale.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    RowReader x;
    RowWriter out;
    for (int64_t row = begin; row < end; ++row) {
      float* const to = out.Open(args.out.At(row * args.width), args.width);
      if (source_row[row] < 0) {
        std::fill_n(to, args.width, 0.0F);
      } else {
        const float* const from = x.Read(args.x.At(source_row[row] * args.width), args.width);
        const float factor = scale == nullptr ? 1.0F : scale[row];
        for (int64_t i = 0; i < args.width; ++i) to[i] = from[i] * factor;
      }
      out.Store();
    }
  });
}

void CpuBackend::DoTokenUnpermute(const TokenUnpermuteArgs& args) {
  const int32_t* const routed_row = args.routed_row.As<int32_t>();
  const float* const weight = args.weight.As<float>();
  pool_.ForRanges(args.num_tokens, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    RowReader x;
    RowWriter out;
    for (int64_t token = begin; token < end; ++token) {
      float* const to = out.Open(args.out.At(token * args.width), args.width);
      std::fill_n(to, args.width, 0.0F);
      for (int64_t copy = token * args.copies; copy < (token + 1) * args.copies; ++copy) {
        if (routed_row[copy] < 0) continue;
        const float* const from = x.Read(args.x.At(routed_row[copy] * args.width), args.width);
        const float factor = weight == nullptr ? 1.0F : weight[copy];
        for (int64_t i = 0; i < args.width; ++i) to[i] += from[i] * factor;
      }
      out.Store();
    }
  });
}

}  // namespace tessera::kernels
