#include "tests/kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tessera::kernels::reference {

using base::MatMulLayout;

Doubles MatMul(MatMulLayout layout, int64_t m, int64_t n, int64_t k, const Doubles& a,
               const Doubles& b) {
  Doubles c(m * n, 0.0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      const double a_value = layout == MatMulLayout::kTN ? a[l * m + i] : a[i * k + l];
      for (int64_t j = 0; j < n; ++j) {
        c[i * n + j] += a_value * (layout == MatMulLayout::kNT ? b[j * k + l] : b[l * n + j]);
      }
    }
  }
  return c;
}

double Gelu(double x) {
  const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(u));
}

double GeluGrad(double x) {
  const double root = std::sqrt(2.0 / std::numbers::pi);
  const double tanh_u = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + tanh_u) +
         0.5 * x * (1.0 - tanh_u * tanh_u) * root * (1.0 + 3.0 * 0.044715 * x * x);
}

NormForward Norm(NormKind kind, int64_t num_rows, int64_t width, const Doubles& x,
                 const Doubles& gamma, const Doubles& beta, double epsilon) {
  NormForward result{Doubles(num_rows * width), Doubles(num_rows), Doubles(num_rows)};
  for (int64_t i = 0; i < num_rows; ++i) {
    double mean = 0;
    if (kind == NormKind::kLayerNorm) {
      for (int64_t j = 0; j < width; ++j) mean += x[i * width + j] / static_cast<double>(width);
    }
    double variance = 0;
    for (int64_t j = 0; j < width; ++j) {
      variance += std::pow(x[i * width + j] - mean, 2) / static_cast<double>(width);
    }
    const double rstd = 1.0 / std::sqrt(variance + epsilon);
    for (int64_t j = 0; j < width; ++j) {
      const double shift = kind == NormKind::kLayerNorm ? beta[j] : 0.0;
      result.y[i * width + j] = (x[i * width + j] - mean) * rstd * gamma[j] + shift;
    }
    result.mean[i] = mean;
    result.rstd[i] = rstd;
  }
  return result;
}

NormGrads NormBackward(NormKind kind, int64_t num_rows, int64_t width, const Doubles& dy,
                       const Doubles& x, const Doubles& gamma, double epsilon) {
  const NormForward forward = Norm(kind, num_rows, width, x, gamma, Doubles(width, 0.0), epsilon);
  NormGrads grads{Doubles(num_rows * width), Doubles(width, 0.0), Doubles(width, 0.0)};
  for (int64_t i = 0; i < num_rows; ++i) {
    double mean_g = 0;
    double mean_gn = 0;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t at = i * width + j;
      const double normalized = (x[at] - forward.mean[i]) * forward.rstd[i];
      mean_g += dy[at] * gamma[j] / static_cast<double>(width);
      mean_gn += dy[at] * gamma[j] * normalized / static_cast<double>(width);
      grads.dgamma[j] += dy[at] * normalized;
      grads.dbeta[j] += dy[at];
    }
    if (kind == NormKind::kRmsNorm) mean_g = 0;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t at = i * width + j;
      const double normalized = (x[at] - forward.mean[i]) * forward.rstd[i];
      grads.dx[at] = forward.rstd[i] * (dy[at] * gamma[j] - mean_g - normalized * mean_gn);
    }
  }
  return grads;
}

Doubles SwiGlu(int64_t num_rows, int64_t width, const Doubles& gate_up) {
  Doubles y(num_rows * width);
  for (int64_t i = 0; i < num_rows; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const double gate = gate_up[i * 2 * width + j];
      y[i * width + j] = gate / (1.0 + std::exp(-gate)) * gate_up[i * 2 * width + width + j];
    }
  }
  return y;
}

Doubles SwiGluBackward(int64_t num_rows, int64_t width, const Doubles& dy, const Doubles& gate_up) {
  Doubles grad(num_rows * 2 * width);
  for (int64_t i = 0; i < num_rows; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const double gate = gate_up[i * 2 * width + j];
      const double up = gate_up[i * 2 * width + width + j];
      const double sigmoid = 1.0 / (1.0 + std::exp(-gate));
      const double slope = sigmoid + gate * sigmoid * (1.0 - sigmoid);
      grad[i * 2 * width + j] = dy[i * width + j] * up * slope;
      grad[i * 2 * width + width + j] = dy[i * width + j] * gate * sigmoid;
    }
  }
  return grad;
}

Doubles Rope(int64_t num_rows, int64_t sequence, int64_t num_heads, int64_t head_dim,
             const Doubles& x, const Doubles& inverse_frequency, double direction) {
  const int64_t half = head_dim / 2;
  Doubles y(x.size());
  for (int64_t r = 0; r < num_rows; ++r) {
    for (int64_t h = 0; h < num_heads; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = direction * static_cast<double>(r % sequence) * inverse_frequency[i];
        const int64_t low = (r * num_heads + h) * head_dim + i;
        const int64_t high = low + half;
        y[low] = x[low] * std::cos(angle) - x[high] * std::sin(angle);
        y[high] = x[high] * std::cos(angle) + x[low] * std::sin(angle);
      }
    }
  }
  return y;
}

AttentionResult Attention(const AttentionShape& shape, const Doubles& q, const Doubles& k,
                          const Doubles& v, const Doubles& mask) {
  return AttentionOverKeys(shape, q, k, v, 0, shape.sequence, mask);
}

AttentionResult AttentionOverKeys(const AttentionShape& shape, const Doubles& q, const Doubles& k,
                                  const Doubles& v, int64_t first_key, int64_t end_key,
                                  const Doubles& mask) {
  const auto [batch, s, heads, kv_heads, d, scale] = shape;
  AttentionResult result{Doubles(shape.NumRows() * shape.QueryWidth(), 0.0),
                         Doubles(batch * heads * s, -std::numeric_limits<double>::infinity()),
                         Doubles(batch * heads * s * s, 0.0)};
  for (int64_t task = 0; task < batch * heads * s; ++task) {
    const int64_t b = task / (heads * s);
    const int64_t h = task / s % heads;
    const int64_t i = task % s;
    const int64_t kv_head = h / (heads / kv_heads);
    const int64_t end = std::min(i + 1, end_key);
    if (first_key >= end) continue;
    double* const p = result.probabilities.data() + task * s;
    for (int64_t j = first_key; j < end; ++j) {
      const int64_t kv_at = ((b * s + j) * kv_heads + kv_head) * d;
      for (int64_t c = 0; c < d; ++c) {
        p[j] += q[((b * s + i) * heads + h) * d + c] * k[kv_at + c] * scale;
      }
    }
    const double max = *std::max_element(p + first_key, p + end);
    double sum = 0;
    for (int64_t j = first_key; j < end; ++j) {
      p[j] = std::exp(p[j] - max);
      sum += p[j];
    }
    result.log_sum_exp[task] = max + std::log(sum);
    for (int64_t j = first_key; j < end; ++j) {
      p[j] /= sum;
      const double weight = mask.empty() ? p[j] : p[j] * mask[task * s + j];
      for (int64_t c = 0; c < d; ++c) {
        result.out[((b * s + i) * heads + h) * d + c] +=
            weight * v[((b * s + j) * kv_heads + kv_head) * d + c];
      }
    }
  }
  return result;
}

AttentionGrads AttentionBackward(const AttentionShape& shape, const Doubles& dout, const Doubles& q,
                                 const Doubles& k, const Doubles& v, const Doubles& mask) {
  const auto [batch, s, heads, kv_heads, d, scale] = shape;
  const AttentionResult forward = Attention(shape, q, k, v);
  AttentionGrads grads{Doubles(q.size(), 0.0), Doubles(k.size(), 0.0), Doubles(v.size(), 0.0)};
  for (int64_t task = 0; task < batch * heads * s; ++task) {
    const int64_t b = task / (heads * s);
    const int64_t h = task / s % heads;
    const int64_t i = task % s;
    const int64_t kv_head = h / (heads / kv_heads);
    const int64_t q_at = ((b * s + i) * heads + h) * d;
    const double* const p = forward.probabilities.data() + task * s;
    Doubles dp(i + 1, 0.0);
    double weighted = 0;
    for (int64_t j = 0; j <= i; ++j) {
      const int64_t kv_at = ((b * s + j) * kv_heads + kv_head) * d;
      const double factor = mask.empty() ? 1 : mask[task * s + j];
      for (int64_t c = 0; c < d; ++c) {
        dp[j] += factor * dout[q_at + c] * v[kv_at + c];
        grads.dv[kv_at + c] += factor * p[j] * dout[q_at + c];
      }
      weighted += p[j] * dp[j];
    }
    for (int64_t j = 0; j <= i; ++j) {
      const int64_t kv_at = ((b * s + j) * kv_heads + kv_head) * d;
      const double score_grad = p[j] * (dp[j] - weighted) * scale;
      for (int64_t c = 0; c < d; ++c) {
        grads.dq[q_at + c] += score_grad * k[kv_at + c];
        grads.dk[kv_at + c] += score_grad * q[q_at + c];
      }
    }
  }
  return grads;
}

CrossEntropyResult CrossEntropy(int64_t num_rows, int64_t num_columns, int64_t num_valid,
                                const Doubles& logits, const std::vector<int32_t>& labels) {
  CrossEntropyResult result{Doubles(num_rows), Doubles(num_rows * num_columns, 0.0)};
  for (int64_t i = 0; i < num_rows; ++i) {
    const double* const x = logits.data() + i * num_columns;
    const double max = *std::max_element(x, x + num_valid);
    double sum = 0;
    for (int64_t j = 0; j < num_valid; ++j) sum += std::exp(x[j] - max);
    result.loss[i] = std::log(sum) + max - x[labels[i]];
    for (int64_t j = 0; j < num_valid; ++j) {
      result.dlogits[i * num_columns + j] = std::exp(x[j] - max) / sum - (j == labels[i] ? 1 : 0);
    }
  }
  return result;
}

Doubles TokenPermute(int64_t width, const Doubles& x, const std::vector<int32_t>& source_row,
                     const Doubles& scale) {
  Doubles out(source_row.size() * width, 0.0);
  for (size_t row = 0; row < source_row.size(); ++row) {
    if (source_row[row] < 0) continue;
    for (int64_t i = 0; i < width; ++i) {
      out[row * width + i] = x[source_row[row] * width + i] * scale[row];
    }
  }
  return out;
}

Doubles TokenUnpermute(int64_t width, int64_t copies, const Doubles& x,
                       const std::vector<int32_t>& routed_row, const Doubles& weight) {
  Doubles out(routed_row.size() / copies * width, 0.0);
  for (size_t copy = 0; copy < routed_row.size(); ++copy) {
    if (routed_row[copy] < 0) continue;
    for (int64_t i = 0; i < width; ++i) {
      out[copy / copies * width + i] += x[routed_row[copy] * width + i] * weight[copy];
    }
  }
  return out;
}

}  // namespace tessera::kernels::reference
