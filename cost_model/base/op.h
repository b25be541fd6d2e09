// The vocabulary of operations: what the op list of a stage plans, the cost model prices, and the
// kernels and communicators report when they run.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::base {

// Shapes stand in OpRecord::dims, in the order given here.
enum class OpKind : uint8_t {
  kMatMul,              // m, n, k, MatMulLayout, accumulate (0|1), Epilogue
  kLayerNormForward,    // num_rows, width
  kLayerNormBackward,   // num_rows, width, adds_residual (0|1)
  kRmsNormForward,      // num_rows, width
  kRmsNormBackward,     // num_rows, width, adds_residual (0|1)
  kResidualAdd,         // num_rows, width, has_bias (0|1)
  kBiasGrad,            // num_rows, width
  kSwiGluForward,       // num_rows, width (of the output)
  kSwiGluBackward,      // num_rows, width (of the output)
  kRope,                // num_rows, num_heads (q and k together), head_dim, inverse (0|1)
  kAttentionForward,    // batch, sequence, num_heads, num_kv_heads, head_dim, AttentionStats
  kAttentionBackward,   // batch, sequence, num_heads, num_kv_heads, head_dim, AttentionStats
  kEmbeddingForward,    // num_rows, width, vocab rows held here
  kEmbeddingBackward,   // num_rows, width, vocab rows held here
  kPositionForward,     // num_rows, width
  kPositionBackward,    // num_rows, width
  kCrossEntropyMax,     // num_rows, vocab columns held here
  kCrossEntropySumExp,  // num_rows, vocab columns held here
  kCrossEntropyGrad,    // num_rows, vocab columns held here
  kSumOfSquares,        // number of elements
  kAdamW,               // number of elements
  kScale,               // number of elements
  kAdd,                 // number of elements
  kFill,                // number of elements
  kCopy,                // number of elements
  kAllReduce,           // elements per rank, group size, axis, ReduceOp
  kReduceScatter,       // elements of the input per rank, group size, axis
  kAllGather,           // elements of the output per rank, group size, axis
  kBroadcast,           // elements, group size, axis
  kAllToAll,            // elements per rank, group size, axis
  kSend,                // elements
  kRecv,                // elements
  kBarrier,             // group size, axis
};

// Which operands of C[m,n] = A[m,k] B[k,n] are stored transposed (row-major storage).
enum class MatMulLayout : uint8_t {
  kNN,  // A[m,k], B[k,n]: data gradient, dX = dY W
  kNT,  // A[m,k], B[n,k]: forward, Y = X W^T
  kTN,  // A[k,m], B[k,n]: weight gradient, dW = dY^T X
};

// What a matrix product does with its result before storing it.
enum class Epilogue : uint8_t {
  kNone,
  kBias,      // C += bias[n]
  kBiasGelu,  // aux = C + bias; C = gelu(aux), tanh approximation
  kGeluGrad,  // C *= gelu'(aux)
};

// What the attention forward pass keeps of its softmax for the backward pass.
enum class AttentionStats : uint8_t {
  kLogSumExp,      // [batch, num_heads, sequence]
  kProbabilities,  // [batch, num_heads, sequence, sequence]
};

enum class ReduceOp : uint8_t { kSum, kMax, kMin, kAvg };

struct OpRecord {
  OpKind kind = OpKind::kFill;
  std::array<int64_t, 6> dims = {};
  bool operator==(const OpRecord&) const = default;
};

std::string_view ToString(OpKind kind);
// "matmul 64x32x16 NT bias": kind and dims, for reports and failing tests.
std::string ToString(const OpRecord& record);

constexpr bool IsCommunication(OpKind kind) { return kind >= OpKind::kAllReduce; }

// Told of each operation as it starts and ends. Backends and communicators take one; a recorder
// in tests, a profiler in the trainer.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void OnOpBegin(const OpRecord& record) = 0;
  virtual void OnOpEnd(const OpRecord& record) = 0;
};

}  // namespace tessera::base
