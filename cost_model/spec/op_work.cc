// FLOPs and bytes of operations: declared in op_list.h.
#include <cmath>

#include "cost_model/base/check.h"
#include "cost_model/spec/op_list.h"

namespace tessera::spec {
namespace {

using base::OpKind;
using base::OpRecord;

constexpr double kFp32Bytes = 4;

double Dim(const OpRecord& record, size_t i) { return static_cast<double>(record.dims[i]); }
bool KeepsProbabilities(const OpRecord& record) {
  return record.dims[5] == static_cast<int64_t>(base::AttentionStats::kProbabilities);
}

// One product of attention (scores, or weighted values) over all heads, forward. A tiled kernel
// skips the blocks above the diagonal, half of them; an unfused one computes all.
double AttentionProductFlops(const OpRecord& record) {
  const double batch = Dim(record, 0), sequence = Dim(record, 1), heads = Dim(record, 2);
  const double full = 2 * batch * heads * sequence * sequence * Dim(record, 4);
  return KeepsProbabilities(record) ? full : full / 2;
}

double MatMulBytes(const OpRecord& record, double element_bytes) {
  const double m = Dim(record, 0), n = Dim(record, 1), k = Dim(record, 2);
  const bool accumulates = record.dims[4] != 0;  // into fp32 gradients: read and written
  const auto epilogue = static_cast<base::Epilogue>(record.dims[5]);
  const bool has_aux =
      epilogue == base::Epilogue::kBiasGelu || epilogue == base::Epilogue::kGeluGrad;
  return (m * k + k * n) * element_bytes + m * n * (accumulates ? 2 * kFp32Bytes : element_bytes) +
         (has_aux ? m * n * element_bytes : 0);
}

double AttentionBytes(const OpRecord& record, double element_bytes, bool backward) {
  const double rows = Dim(record, 0) * Dim(record, 1);
  const double q_width = Dim(record, 2) * Dim(record, 4);
  const double kv_width = 2 * Dim(record, 3) * Dim(record, 4);
  // Forward reads q, k, v and writes the output; backward reads those, the output and its
  // gradient, and writes dq, dk, dv.
  const double fused = backward ? rows * (4 * q_width + 2 * kv_width) * element_bytes
                                : rows * (2 * q_width + kv_width) * element_bytes;
  if (!KeepsProbabilities(record)) return fused;
  // Scores written, read by the softmax, probabilities written and read again; as many for their
  // gradients.
  constexpr double kScorePasses = 4;
  const double scores = Dim(record, 0) * Dim(record, 2) * Dim(record, 1) * Dim(record, 1);
  return fused + kScorePasses * scores * element_bytes;
}

// Times that an element-wise operation touches its [rows, width] operand.
double Passes(const OpRecord& record) {
  switch (record.kind) {
    case OpKind::kLayerNormForward:
    case OpKind::kRmsNormForward:
      return 2;  // x, y
    case OpKind::kLayerNormBackward:
    case OpKind::kRmsNormBackward:
      return 3 + Dim(record, 2);  // dy, x, dx (+ residual)
    case OpKind::kResidualAdd:
      return 3;
    case OpKind::kBiasGrad:
      return 1;
    case OpKind::kSwiGluForward:
      return 3;  // gate, up, y
    case OpKind::kSwiGluBackward:
      return 5;  // dy, gate, up, dgate, dup
    case OpKind::kEmbeddingForward:
      return 2;
    case OpKind::kEmbeddingBackward:
      return 3;
    case OpKind::kPositionForward:
    case OpKind::kPositionBackward:
      return 3;
    default:
      return 0;
  }
}

}  // namespace

double FlopsOf(const OpRecord& record) {
  switch (record.kind) {
    case OpKind::kMatMul:
      return 2 * Dim(record, 0) * Dim(record, 1) * Dim(record, 2);
    case OpKind::kAttentionForward:
      return 2 * AttentionProductFlops(record);
    // dV, dP, dQ, dK, and the scores again where the probabilities were not kept.
    case OpKind::kAttentionBackward:
      return (KeepsProbabilities(record) ? 4 : 5) * AttentionProductFlops(record);
    default:
      return 0;
  }
}

double MemoryBytesOf(const OpRecord& record, int64_t element_bytes) {
  const auto bytes = static_cast<double>(element_bytes);
  const double elements = Dim(record, 0) * Dim(record, 1);
  switch (record.kind) {
    case OpKind::kMatMul:
      return MatMulBytes(record, bytes);
    case OpKind::kAttentionForward:
      return AttentionBytes(record, bytes, /*backward=*/false);
    case OpKind::kAttentionBackward:
      return AttentionBytes(record, bytes, /*backward=*/true);
    case OpKind::kRope:
      return 2 * elements * Dim(record, 2) * bytes;
    // Logits and their gradient are fp32.
    case OpKind::kCrossEntropyMax:
    case OpKind::kCrossEntropySumExp:
      return elements * kFp32Bytes;
    case OpKind::kCrossEntropyGrad:
      return 2 * elements * kFp32Bytes;
    case OpKind::kSumOfSquares:
      return Dim(record, 0) * kFp32Bytes;
    case OpKind::kAdamW:
      return 7 * Dim(record, 0) * kFp32Bytes;  // p, m, v both ways; gradient
    case OpKind::kScale:
      return 2 * Dim(record, 0) * kFp32Bytes;
    case OpKind::kAdd:
      return 3 * Dim(record, 0) * kFp32Bytes;
    case OpKind::kFill:
      return Dim(record, 0) * kFp32Bytes;
    case OpKind::kCopy:
      return 2 * Dim(record, 0) * kFp32Bytes;
    default:
      return Passes(record) * elements * bytes;
  }
}

double ModelFlopsPerStep(const ModelSpec& model, const TrainingSpec& training,
                         FlopsConvention convention) {
  const auto h = static_cast<double>(model.hidden_size);
  const auto s = static_cast<double>(training.sequence_length);
  const double q_width = static_cast<double>(model.num_attention_heads * model.head_dim);
  const double kv_width = static_cast<double>(model.num_key_value_heads * model.head_dim);
  const double num_mlp_products = model.activation == ActivationKind::kSwiGlu ? 3 : 2;
  double mlp_width = static_cast<double>(model.ffn_hidden_size);
  double router = 0;
  if (model.moe) {
    mlp_width =
        static_cast<double>(model.moe->expert_ffn_hidden_size) * model.moe->experts_per_token;
    router = 2 * h * model.moe->num_experts;
  }
  const double attention_core =
      4 * s * q_width * (convention == FlopsConvention::kCausal ? 0.5 : 1.0);
  const double per_layer = 2 * h * (2 * q_width + 2 * kv_width) + attention_core +
                           2 * num_mlp_products * h * mlp_width + router;
  const double forward_per_token =
      model.num_layers * per_layer + 2 * h * static_cast<double>(model.vocab_size);
  const double tokens = static_cast<double>(training.global_batch_size) * s;
  return 3 * tokens * forward_per_token;
}

}  // namespace tessera::spec
