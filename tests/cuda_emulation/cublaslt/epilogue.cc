#include "tests/cuda_emulation/cublaslt/epilogue.h"

#include <cmath>
#include <vector>

namespace tessera::cuda_emulation::cublaslt {
namespace {

constexpr float kSqrtTwoOverPi = 0.7978845608f;
constexpr float kCubic = 0.044715f;

float Gelu(float x) {
  return 0.5f * x * (1.0f + std::tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x)));
}

float GeluDerivative(float x) {
  const float tanh = std::tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x));
  const float inner = kSqrtTwoOverPi * (1.0f + 3.0f * kCubic * x * x);
  return 0.5f * (1.0f + tanh) + 0.5f * x * (1.0f - tanh * tanh) * inner;
}

const char* Bytes(const void* pointer, int64_t elements, NumberFormat format) {
  return static_cast<const char*>(pointer) + elements * SizeBytes(format);
}

char* Bytes(void* pointer, int64_t elements, NumberFormat format) {
  return static_cast<char*>(pointer) + elements * SizeBytes(format);
}

}  // namespace

void StoreWithEpilogue(const MatmulProblem& problem, float alpha, float beta, const float* product,
                       const void* c, void* d) {
  const int64_t m = problem.m(), n = problem.n();
  const NumberFormat format = problem.FormatOfD();
  const auto& desc = problem.desc;
  std::vector<float> bias(m), aux(m), values(m), old_values(m);
  if (AddsBias(desc.epilogue)) LoadNumbers(desc.bias, format, m, bias.data());
  for (int64_t col = 0; col < n; ++col) {
    for (int64_t row = 0; row < m; ++row) values[row] = alpha * product[col * m + row];
    if (beta != 0.0f) {
      LoadNumbers(Bytes(c, col * problem.c.ld, format), format, m, old_values.data());
      for (int64_t row = 0; row < m; ++row) values[row] += beta * old_values[row];
    }
    if (AddsBias(desc.epilogue)) {
      for (int64_t row = 0; row < m; ++row) values[row] += bias[row];
    }
    if (StoresGeluInput(desc.epilogue)) {
      StoreNumbers(values.data(), format, m, Bytes(desc.aux, col * desc.aux_ld, format));
      for (float& value : values) value = Gelu(value);
    } else if (desc.epilogue == CUBLASLT_EPILOGUE_DGELU) {
      LoadNumbers(Bytes(desc.aux, col * desc.aux_ld, format), format, m, aux.data());
      for (int64_t row = 0; row < m; ++row) values[row] *= GeluDerivative(aux[row]);
    }
    StoreNumbers(values.data(), format, m, Bytes(d, col * problem.d.ld, format));
  }
}

}  // namespace tessera::cuda_emulation::cublaslt
