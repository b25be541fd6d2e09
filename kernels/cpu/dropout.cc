#include "kernels/cpu/cpu_backend.h"

namespace tessera::kernels {

void CpuBackend::DoDropout(const DropoutArgs& args) {
  const float* const x = args.x.As<float>();
  float* const y = args.y.As<float>();
  const auto probability = static_cast<double>(args.probability);
  const auto scale = static_cast<float>(1.0 / (1.0 - probability));
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const uint64_t first = args.first_index + static_cast<uint64_t>(row) * args.index_stride;
      for (int64_t column = 0; column < args.width; ++column) {
        const int64_t at = row * args.width + column;
        const double draw = base::UniformAt(args.key, first + static_cast<uint64_t>(column));
        y[at] = draw >= probability ? x[at] * scale : 0.0F;
      }
    }
  });
}

}  // namespace tessera::kernels
