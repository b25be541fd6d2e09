#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/rows.h"

namespace tessera::kernels {
namespace {

void RotateHead(float* x, const float* cosines, const float* sines, int64_t half, float direction) {
  float* const low = x;
  float* const high = x + half;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float a = low[i];
    const float b = high[i];
    const float sine = direction * sines[i];
    low[i] = a * cosines[i] - b * sine;
    high[i] = b * cosines[i] + a * sine;
  }
}

}  // namespace

void RopeTable::Prepare(const double* inverse_frequency, int64_t half, int64_t sequence) {
  if (static_cast<int64_t>(inverse_frequency_.size()) != half ||
      !std::equal(inverse_frequency_.begin(), inverse_frequency_.end(), inverse_frequency)) {
    inverse_frequency_.assign(inverse_frequency, inverse_frequency + half);
    values_.clear();
  }
  const int64_t num_kept = static_cast<int64_t>(values_.size()) / (2 * half);
  if (num_kept >= sequence) return;
  values_.resize(sequence * 2 * half);
  for (int64_t position = num_kept; position < sequence; ++position) {
    float* const row = values_.data() + position * 2 * half;
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * inverse_frequency[i];
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void CpuBackend::DoRope(const RopeArgs& args) {
  const int64_t half = args.head_dim / 2;
  const int64_t width = args.num_heads * args.head_dim;
  const float direction = args.inverse ? -1.0F : 1.0F;
  // Of the last token of the sample: the table holds all positions up to it.
  rope_table_.Prepare(args.inverse_frequency, half, args.positions.Of(args.sequence - 1) + 1);
  pool_.ForRanges(args.num_rows, RowGrain(width), 1, [&](int64_t begin, int64_t end) {
    RowWriter heads;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t position =
          args.documents.PositionOf(r / args.sequence, args.positions.Of(r % args.sequence));
      const float* const cosines = rope_table_.Row(position);
      float* const row = heads.Load(args.qk.At(r * args.stride), width);
      for (int64_t h = 0; h < args.num_heads; ++h) {
        RotateHead(row + h * args.head_dim, cosines, cosines + half, half, direction);
      }
      heads.Store();
    }
  });
}

}  // namespace tessera::kernels
