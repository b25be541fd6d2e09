#include <cmath>

#include "kernels/cpu/add_into.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"

namespace tessera::kernels {
namespace {

float Sum(const float* x, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += x[j];
  return sum;
}

float SumOfSquaredDistances(const float* x, float center, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += (x[j] - center) * (x[j] - center);
  return sum;
}

float ReciprocalRoot(float mean_square, float epsilon) {
  return 1.0F / std::sqrt(mean_square + epsilon);
}

// The parameters of a norm, as fp32.
struct NormParameters {
  const float* gamma = nullptr;
  const float* beta = nullptr;  // LayerNorm's forward pass alone
};

void LayerNormRow(const NormForwardArgs& args, const NormParameters& parameters, int64_t row,
                  const float* x, float* y) {
  const int64_t width = args.width;
  const float* const gamma = parameters.gamma;
  const float* const beta = parameters.beta;
  const float mean = Sum(x, width) / static_cast<float>(width);
  const float variance = SumOfSquaredDistances(x, mean, width) / static_cast<float>(width);
  const float rstd = ReciprocalRoot(variance, args.epsilon);
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) y[j] = (x[j] - mean) * rstd * gamma[j] + beta[j];
  args.mean.As<float>()[row] = mean;
  args.rstd.As<float>()[row] = rstd;
}

void RmsNormRow(const NormForwardArgs& args, const NormParameters& parameters, int64_t row,
                const float* x, float* y) {
  const int64_t width = args.width;
  const float* const gamma = parameters.gamma;
  const float mean_square = SumOfSquaredDistances(x, 0, width) / static_cast<float>(width);
  const float rstd = ReciprocalRoot(mean_square, args.epsilon);
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) y[j] = x[j] * rstd * gamma[j];
  args.rstd.As<float>()[row] = rstd;
}

// norm_row(args, parameters, row, x, y) for every row.
template <typename NormRow>
void NormForward(ThreadPool& pool, const NormForwardArgs& args, const NormRow& norm_row) {
  RowReader gamma, beta;
  const NormParameters parameters = {gamma.Read(args.gamma, args.width),
                                     beta.Read(args.beta, args.width)};
  pool.ForRanges(args.num_rows, RowGrain(args.width), 1, [&](int64_t begin, int64_t end) {
    RowReader x;
    RowWriter y;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t offset = row * args.width;
      norm_row(args, parameters, row, x.Read(args.x.At(offset), args.width),
               y.Open(args.y.At(offset), args.width));
      y.Store();
    }
  });
}

// What the backward pass of some rows reads and writes through.
struct NormBackwardRows {
  RowReader dy, x, residual_grad;
  RowWriter dx;
};

// Gradient of one row; its share of the parameter gradients is added to dgamma and dbeta. With
// n = (x - mean) * rstd and g = dy * gamma, dx = rstd * (g - mean(g) - n * mean(g n)); RMSNorm has
// neither mean nor the mean(g) term, nor dbeta (null).
void NormBackwardRow(const NormBackwardArgs& args, const float* gamma, int64_t row,
                     NormBackwardRows& rows, float* dgamma, float* dbeta) {
  const int64_t width = args.width;
  const float* const dy = rows.dy.Read(args.dy.At(row * width), width);
  const float* const x = rows.x.Read(args.x.At(row * width), width);
  float* const dx = rows.dx.Open(args.dx.At(row * width), width);
  const float mean = args.mean ? args.mean.As<float>()[row] : 0.0F;
  const float rstd = args.rstd.As<float>()[row];
  float sum_g = 0;
  float sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
  for (int64_t j = 0; j < width; ++j) {
    const float normalized = (x[j] - mean) * rstd;
    const float g = dy[j] * gamma[j];
    sum_g += g;
    sum_gn += g * normalized;
    dgamma[j] += dy[j] * normalized;
  }
  if (dbeta != nullptr) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) dbeta[j] += dy[j];
  }
  const float mean_g = dbeta != nullptr ? sum_g / static_cast<float>(width) : 0.0F;
  const float mean_gn = sum_gn / static_cast<float>(width);
  if (args.residual_grad) {
    const float* const residual =
        rows.residual_grad.Read(args.residual_grad.At(row * width), width);
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const float normalized = (x[j] - mean) * rstd;
      dx[j] = residual[j] + rstd * (dy[j] * gamma[j] - mean_g - normalized * mean_gn);
    }
  } else {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const float normalized = (x[j] - mean) * rstd;
      dx[j] = rstd * (dy[j] * gamma[j] - mean_g - normalized * mean_gn);
    }
  }
  rows.dx.Store();
}

// Rows go in fixed blocks, each with its own sum of parameter gradients; the sums are added in
// the order of the blocks, so that the result does not depend on the threads.
constexpr int64_t kMaxRowBlocks = 64;
constexpr int64_t kMinBlockRows = 8;

void NormBackward(ThreadPool& pool, Scratch& scratch, const NormBackwardArgs& args) {
  const int64_t block_rows = std::max(kMinBlockRows, base::CeilDiv(args.num_rows, kMaxRowBlocks));
  const int64_t num_blocks = base::CeilDiv(args.num_rows, block_rows);
  const int64_t padded_width = base::RoundUp(args.width, kLineFloats);
  float* const sums = scratch.Get(num_blocks * 2 * padded_width);
  const bool has_beta = static_cast<bool>(args.dbeta);
  RowReader gamma_reader;
  const float* const gamma = gamma_reader.Read(args.gamma, args.width);
  pool.ForRanges(num_blocks, base::CeilDiv(RowGrain(args.width), block_rows), 1,
                 [&](int64_t begin, int64_t end) {
                   NormBackwardRows rows;
                   for (int64_t block = begin; block < end; ++block) {
                     float* const dgamma = sums + block * 2 * padded_width;
                     float* const dbeta = has_beta ? dgamma + padded_width : nullptr;
                     std::fill(dgamma, dgamma + 2 * padded_width, 0.0F);
                     const int64_t last_row = std::min(args.num_rows, (block + 1) * block_rows);
                     for (int64_t row = block * block_rows; row < last_row; ++row) {
                       NormBackwardRow(args, gamma, row, rows, dgamma, dbeta);
                     }
                   }
                 });
  for (int64_t block = 0; block < num_blocks; ++block) {
    const float* const dgamma = sums + block * 2 * padded_width;
    AddInto(dgamma, args.dgamma.As<float>(), args.width);
    if (has_beta) AddInto(dgamma + padded_width, args.dbeta.As<float>(), args.width);
  }
}

}  // namespace

void CpuBackend::DoLayerNormForward(const NormForwardArgs& args) {
  NormForward(pool_, args, LayerNormRow);
}

void CpuBackend::DoRmsNormForward(const NormForwardArgs& args) {
  NormForward(pool_, args, RmsNormRow);
}

void CpuBackend::DoLayerNormBackward(const NormBackwardArgs& args) {
  NormBackward(pool_, shared_scratch_, args);
}

void CpuBackend::DoRmsNormBackward(const NormBackwardArgs& args) {
  NormBackward(pool_, shared_scratch_, args);
}

}  // namespace tessera::kernels
