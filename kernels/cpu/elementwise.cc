#include <cstring>

#include "kernels/cpu/add_into.h"
#include "kernels/cpu/cpu_backend.h"

namespace tessera::kernels {
namespace {

void AddRow(const float* x, const float* residual, float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] + residual[j];
}

void AddRowAndBias(const float* x, const float* residual, const float* bias, float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] + residual[j] + bias[j];
}

// Sums down a column go in blocks of rows, which keeps rounding errors of long columns small.
constexpr int64_t kSumBlockRows = 64;

// dbias[begin, end) += column sums. The block's sums live in `sums`.
void SumColumns(const BiasGradArgs& args, int64_t begin, int64_t end, float* sums) {
  float* const dbias = args.dbias.As<float>() + begin;
  const int64_t num_cols = end - begin;
  for (int64_t first = 0; first < args.num_rows; first += kSumBlockRows) {
    const int64_t last = std::min(args.num_rows, first + kSumBlockRows);
    std::fill(sums, sums + num_cols, 0.0F);
    for (int64_t row = first; row < last; ++row) {
      const float* const dy = args.dy.As<float>() + row * args.stride + begin;
      AddInto(dy, sums, num_cols);
    }
    AddInto(sums, dbias, num_cols);
  }
}

}  // namespace

void CpuBackend::DoResidualAdd(const ResidualAddArgs& args) {
  const float* const x = args.x.As<float>();
  const float* const residual = args.residual.As<float>();
  const float* const bias = args.bias.As<float>();
  float* const y = args.y.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t offset = row * args.width;
      if (bias != nullptr) {
        AddRowAndBias(x + offset, residual + offset, bias, y + offset, args.width);
      } else {
        AddRow(x + offset, residual + offset, y + offset, args.width);
      }
    }
  });
}

void CpuBackend::DoBiasGrad(const BiasGradArgs& args) {
  const int64_t grain = std::max(kLineFloats, base::CeilDiv(kElementGrain, args.num_rows));
  float* const sums = shared_scratch_.Get(base::RoundUp(args.width, kLineFloats));
  pool_.ForRanges(args.width, grain, kLineFloats,
                  [&](int64_t begin, int64_t end) { SumColumns(args, begin, end, sums + begin); });
}

void CpuBackend::DoScale(Array x, int64_t n, float factor) {
  float* const values = x.As<float>();
  pool_.ForRanges(n, kElementGrain, kLineFloats, [&](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) values[i] *= factor;
  });
}

void CpuBackend::DoAdd(ConstArray x, Array y, int64_t n) {
  const float* const source = x.As<float>();
  float* const sum = y.As<float>();
  pool_.ForRanges(n, kElementGrain, kLineFloats, [&](int64_t begin, int64_t end) {
    AddInto(source + begin, sum + begin, end - begin);
  });
}

void CpuBackend::DoFill(Array x, int64_t n, float value) {
  float* const values = x.As<float>();
  pool_.ForRanges(n, kElementGrain, kLineFloats, [&](int64_t begin, int64_t end) {
    std::fill(values + begin, values + end, value);
  });
}

// One type alone is computed in here.
void CpuBackend::DoCast(ConstArray source, Array destination, int64_t n) {
  if (n > 0) std::memcpy(destination.As<float>(), source.As<float>(), n * sizeof(float));
}

void CpuBackend::DoCopy(ConstArray source, Array destination, int64_t n) {
  const int64_t element_bytes = base::SizeBytes(source.dtype);
  pool_.ForRanges(n, kElementGrain, kAlignmentBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(destination.data) + begin * element_bytes,
                static_cast<const char*>(source.data) + begin * element_bytes,
                (end - begin) * element_bytes);
  });
}

}  // namespace tessera::kernels
