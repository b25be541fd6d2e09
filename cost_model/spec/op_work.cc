// FLOPs and bytes of operations: declared in op_list.h.
#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/spec/op_list.h"

namespace tessera::spec {
namespace {

using base::OpKind;
using base::OpRecord;

constexpr double kFp32Bytes = 4;
constexpr double kInt32Bytes = 4;

double Dim(const OpRecord& record, size_t i) { return static_cast<double>(record.dims[i]); }
bool KeepsProbabilities(const OpRecord& record) {
  return record.dims[5] == static_cast<int64_t>(base::AttentionStats::kProbabilities);
}

bool IsFull(const OpRecord& record) {
  return record.dims[9] == static_cast<int64_t>(base::AttentionMask::kFull);
}
double KeySequence(const OpRecord& record) { return Dim(record, record.dims[6] > 0 ? 6 : 1); }
double ValueHeadDim(const OpRecord& record) { return Dim(record, record.dims[7] > 0 ? 7 : 4); }

// Pairs of a query and a key that one head of one sequence looks at.
double AttendedPairs(const OpRecord& record) { return Dim(record, 1) * MeanAttendedKeys(record); }

// Two products over `pairs` a head: `key_products` as deep as the keys and `value_products` as the
// values are.
double AttentionFlops(const OpRecord& record, double pairs, int key_products, int value_products) {
  return 2 * Dim(record, 0) * Dim(record, 2) * pairs *
         (key_products * Dim(record, 4) + value_products * ValueHeadDim(record));
}

// A tiled kernel skips the blocks that the mask empties; an unfused one computes all.
double ComputedPairs(const OpRecord& record) {
  return KeepsProbabilities(record) ? Dim(record, 1) * KeySequence(record) : AttendedPairs(record);
}

// Each of `num_groups` products reads weights of its own; the rows lie in one of the operands.
double MatMulBytes(const OpRecord& record, double element_bytes, double num_groups) {
  const double m = Dim(record, 0), n = Dim(record, 1), k = Dim(record, 2);
  const bool accumulates = record.dims[4] != 0;  // into fp32 gradients: read and written
  const bool is_weight_gradient = record.dims[3] == static_cast<int64_t>(base::MatMulLayout::kTN);
  const auto epilogue = static_cast<base::Epilogue>(record.dims[5]);
  const bool has_aux =
      epilogue == base::Epilogue::kBiasGelu || epilogue == base::Epilogue::kGeluGrad;
  const double results = m * n * (is_weight_gradient ? num_groups : 1);
  const double right = k * n * (is_weight_gradient ? 1 : num_groups);
  return (m * k + right) * element_bytes +
         results * (accumulates ? 2 * kFp32Bytes : element_bytes) +
         (has_aux ? results * element_bytes : 0);
}

// What gradients that are added to fp32 sums take beyond being stored.
double GradientSumBytes(const OpRecord& record, double element_bytes) {
  const auto sums = static_cast<base::AttentionSums>(record.dims[10]);
  double elements = 0;
  if (sums != base::AttentionSums::kNone) {
    elements += KeySequence(record) * Dim(record, 3) * (Dim(record, 4) + ValueHeadDim(record));
  }
  if (sums == base::AttentionSums::kAll) {
    elements += Dim(record, 1) * Dim(record, 2) * Dim(record, 4);
  }
  return Dim(record, 0) * elements * (2 * kFp32Bytes - element_bytes);
}

double AttentionBytes(const OpRecord& record, double element_bytes, bool backward) {
  const double rows = Dim(record, 0) * Dim(record, 1);
  const double key_rows = Dim(record, 0) * KeySequence(record);
  const double q_width = Dim(record, 2) * Dim(record, 4);
  const double output_width = Dim(record, 2) * ValueHeadDim(record);
  const double kv_width = Dim(record, 3) * (Dim(record, 4) + ValueHeadDim(record));
  // Forward reads q, k, v and writes the output; backward reads those, the output and its
  // gradient, and writes dq, dk, dv.
  const double forward = rows * (q_width + output_width) + key_rows * kv_width;
  const double fused =
      (backward ? 2 : 1) * forward * element_bytes + GradientSumBytes(record, element_bytes);
  if (!KeepsProbabilities(record)) return fused;
  // Scores written, read by the softmax, probabilities written and read again; as many for their
  // gradients.
  constexpr double kScorePasses = 4;
  const double scores = Dim(record, 0) * Dim(record, 2) * Dim(record, 1) * KeySequence(record);
  return fused + kScorePasses * scores * element_bytes;
}

// The router's scores and choices are fp32 [rows, experts]: logits read, probabilities and the
// sparse choice written; backward their gradients.
constexpr double kRouterPasses = 3;

// Times that an element-wise operation touches its [rows, width] operand.
double PassesOf(const OpRecord& record) {
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
    case OpKind::kWeightedGeluForward:
      return 2;  // x, y
    case OpKind::kWeightedGeluBackward:
      return 3;  // dy, x, dx
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

// Under a causal mask query i of q sees the k - q + i keys before its own, at most w of them where
// there is a window: of k = q keys k / 2, or w - w^2 / (2 k).
double MeanAttendedKeys(const OpRecord& record) {
  const double queries = Dim(record, 1), keys = KeySequence(record);
  const double window = record.dims[8] > 0 ? std::min(Dim(record, 8), keys) : keys;
  if (IsFull(record)) return window;
  const double before = keys - queries;
  const double short_of_window = std::clamp(window - before, 0.0, queries);  // queries
  return window - short_of_window * (window - before - short_of_window / 2) / queries;
}

double FlopsOf(const OpRecord& record) {
  switch (record.kind) {
    case OpKind::kMatMul:
    case OpKind::kGroupedMatMul:  // its rows are shared out: all groups together are one product
      return 2 * Dim(record, 0) * Dim(record, 1) * Dim(record, 2);
    case OpKind::kAttentionForward:
      return AttentionFlops(record, ComputedPairs(record), 1, 1);
    // dQ, dK, and the scores again where the probabilities were not kept; dV, dP.
    case OpKind::kAttentionBackward:
      return AttentionFlops(record, ComputedPairs(record), KeepsProbabilities(record) ? 2 : 3, 2);
    default:
      return 0;
  }
}

double ConventionFlopsOf(const OpRecord& record, FlopsConvention convention) {
  if (record.kind != OpKind::kAttentionForward) return FlopsOf(record);
  double pairs = AttendedPairs(record);
  if (convention == FlopsConvention::kFull) {
    // For each pair below the diagonal the convention counts one above it; parts of a sequence that
    // context ranks take lie below it.
    const bool has_window = record.dims[8] > 0;
    pairs = has_window ? Dim(record, 1) * std::min(Dim(record, 8), KeySequence(record)) : 2 * pairs;
  }
  return AttentionFlops(record, pairs, 1, 1);
}

double MemoryBytesOf(const OpRecord& record, int64_t element_bytes) {
  const auto bytes = static_cast<double>(element_bytes);
  const double elements = Dim(record, 0) * Dim(record, 1);
  switch (record.kind) {
    case OpKind::kMatMul:
      return MatMulBytes(record, bytes, 1);
    case OpKind::kGroupedMatMul:
      return MatMulBytes(record, bytes, Dim(record, 6));
    case OpKind::kRouterForward:
    case OpKind::kRouterBackward:
      return kRouterPasses * elements * kFp32Bytes;
    case OpKind::kExpertCount:  // the choices of every row
      return Dim(record, 0) * Dim(record, 2) * kInt32Bytes;
    // Every routed row and every token once, whichever side is read.
    case OpKind::kTokenPermute:
    case OpKind::kTokenUnpermute:
      return (Dim(record, 0) + Dim(record, 2)) * Dim(record, 1) * bytes;
    case OpKind::kKeyAssembly:
      return 2 * elements * Dim(record, 2) * bytes;
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
    case OpKind::kCast:
      return Dim(record, 0) * (kFp32Bytes + bytes);
    case OpKind::kCopyRows:
    case OpKind::kDropout:
      return 2 * elements * bytes;
    case OpKind::kLogSumExpMerge:  // the merged part both ways, the other read
      return 3 * elements * Dim(record, 2) * Dim(record, 3) * bytes;
    case OpKind::kSumBlocks:
      return (Dim(record, 1) + 1) * Dim(record, 0) * bytes;
    default:
      return PassesOf(record) * elements * bytes;
  }
}

}  // namespace tessera::spec
