#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels {
namespace {

void SwiGluRow(const float* gate, const float* up, float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = gate[j] * Sigmoid(gate[j]) * up[j];
}

// silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g).
void SwiGluGradRow(const float* dy, const float* gate, const float* up, float* dgate, float* dup,
                   int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float g = gate[j];
    const float u = up[j];
    const auto [sigmoid, complement] = SigmoidPair(g);
    dgate[j] = dy[j] * u * sigmoid * (1.0F + g * complement);
    dup[j] = dy[j] * g * sigmoid;
  }
}

}  // namespace

void CpuBackend::DoSwiGluForward(const SwiGluForwardArgs& args) {
  const int64_t width = args.width;
  pool_.ForRanges(args.num_rows, RowGrain(width), 1, [&](int64_t begin, int64_t end) {
    RowReader gate_up;
    RowWriter y;
    for (int64_t row = begin; row < end; ++row) {
      const float* const gate = gate_up.Read(args.gate_up.At(row * 2 * width), 2 * width);
      SwiGluRow(gate, gate + width, y.Open(args.y.At(row * width), width), width);
      y.Store();
    }
  });
}

void CpuBackend::DoSwiGluBackward(const SwiGluBackwardArgs& args) {
  const int64_t width = args.width;
  pool_.ForRanges(args.num_rows, RowGrain(width), 1, [&](int64_t begin, int64_t end) {
    RowReader dy, gate_up;
    RowWriter dgate_up;
    for (int64_t row = begin; row < end; ++row) {
      const float* const gate = gate_up.Read(args.gate_up.At(row * 2 * width), 2 * width);
      float* const dgate = dgate_up.Open(args.dgate_up.At(row * 2 * width), 2 * width);
      SwiGluGradRow(dy.Read(args.dy.At(row * width), width), gate, gate + width, dgate,
                    dgate + width, width);
      dgate_up.Store();
    }
  });
}

}  // namespace tessera::kernels
