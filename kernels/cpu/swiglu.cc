#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels {
namespace {

void SwiGluRow(const float* gate, const float* up, float weight, float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = gate[j] * Sigmoid(gate[j]) * up[j] * weight;
}

// silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g). Returns the gradient of the weight.
float SwiGluGradRow(const float* dy, const float* gate, const float* up, float weight, float* dgate,
                    float* dup, int64_t n) {
  float dweight = 0;
#pragma omp simd reduction(+ : dweight)
  for (int64_t j = 0; j < n; ++j) {
    const float g = gate[j];
    const float u = up[j];
    const float grad = dy[j] * weight;
    const auto [sigmoid, complement] = SigmoidPair(g);
    dweight += dy[j] * g * sigmoid * u;
    dgate[j] = grad * u * sigmoid * (1.0F + g * complement);
    dup[j] = grad * g * sigmoid;
  }
  return dweight;
}

void GeluRow(const float* x, float weight, float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = Gelu(x[j]) * weight;
}

float GeluGradRow(const float* dy, const float* x, float weight, float* dx, int64_t n) {
  float dweight = 0;
#pragma omp simd reduction(+ : dweight)
  for (int64_t j = 0; j < n; ++j) {
    const float grad = dy[j];
    dweight += grad * Gelu(x[j]);
    dx[j] = grad * weight * GeluGrad(x[j]);
  }
  return dweight;
}

}  // namespace

void CpuBackend::DoSwiGluForward(const SwiGluForwardArgs& args) {
  const int64_t width = args.width;
  const float* const weight = args.row_weight.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(width), 1, [&](int64_t begin, int64_t end) {
    RowReader gate_up;
    RowWriter y;
    for (int64_t row = begin; row < end; ++row) {
      const float* const gate = gate_up.Read(args.gate_up.At(row * 2 * width), 2 * width);
      SwiGluRow(gate, gate + width, weight == nullptr ? 1.0F : weight[row],
                y.Open(args.y.At(row * width), width), width);
      y.Store();
    }
  });
}

void CpuBackend::DoSwiGluBackward(const SwiGluBackwardArgs& args) {
  const int64_t width = args.width;
  const float* const weight = args.row_weight.As<float>();
  float* const dweight = args.dweight.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(width), kLineFloats, [&](int64_t begin, int64_t end) {
    RowReader dy, gate_up;
    RowWriter dgate_up;
    for (int64_t row = begin; row < end; ++row) {
      const float* const gate = gate_up.Read(args.gate_up.At(row * 2 * width), 2 * width);
      float* const dgate = dgate_up.Open(args.dgate_up.At(row * 2 * width), 2 * width);
      const float sum =
          SwiGluGradRow(dy.Read(args.dy.At(row * width), width), gate, gate + width,
                        weight == nullptr ? 1.0F : weight[row], dgate, dgate + width, width);
      if (dweight != nullptr) dweight[row] = sum;
      dgate_up.Store();
    }
  });
}

void CpuBackend::DoWeightedGeluForward(const WeightedGeluForwardArgs& args) {
  const int64_t width = args.width;
  const float* const weight = args.row_weight.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(width), 1, [&](int64_t begin, int64_t end) {
    RowReader x;
    RowWriter y;
    for (int64_t row = begin; row < end; ++row) {
      GeluRow(x.Read(args.x.At(row * width), width), weight[row],
              y.Open(args.y.At(row * width), width), width);
      y.Store();
    }
  });
}

void CpuBackend::DoWeightedGeluBackward(const WeightedGeluBackwardArgs& args) {
  const int64_t width = args.width;
  const float* const weight = args.row_weight.As<float>();
  float* const dweight = args.dweight.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(width), kLineFloats, [&](int64_t begin, int64_t end) {
    RowReader dy, x;
    RowWriter dx;
    for (int64_t row = begin; row < end; ++row) {
      dweight[row] = GeluGradRow(dy.Read(args.dy.At(row * width), width),
                                 x.Read(args.x.At(row * width), width), weight[row],
                                 dx.Open(args.dx.At(row * width), width), width);
      dx.Store();
    }
  });
}

}  // namespace tessera::kernels
