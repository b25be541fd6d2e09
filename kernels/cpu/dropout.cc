#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"

namespace tessera::kernels {

void CpuBackend::DoDropout(const DropoutArgs& args) {
  const auto probability = static_cast<double>(args.probability);
  const auto scale = static_cast<float>(1.0 / (1.0 - probability));
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    RowReader reader;
    RowWriter writer;
    for (int64_t row = begin; row < end; ++row) {
      const float* const x = reader.Read(args.x.At(row * args.width), args.width);
      float* const y = writer.Open(args.y.At(row * args.width), args.width);
      const uint64_t first = args.first_index + static_cast<uint64_t>(row) * args.index_stride;
      for (int64_t column = 0; column < args.width; ++column) {
        const double draw = base::UniformAt(args.key, first + static_cast<uint64_t>(column));
        y[column] = draw >= probability ? x[column] * scale : 0.0F;
      }
      writer.Store();
    }
  });
}

}  // namespace tessera::kernels
