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
  kMatMul,             // m, n, k, MatMulLayout, accumulate (0|1), Epilogue
  kLayerNormForward,   // num_rows, width
  kLayerNormBackward,  // num_rows, width, adds_residual (0|1)
  kRmsNormForward,     // num_rows, width
  kRmsNormBackward,    // num_rows, width, adds_residual (0|1)
  kResidualAdd,        // num_rows, width, has_bias (0|1), drops (0|1): of the sum's first term
  kBiasGrad,           // num_rows, width
  kSwiGluForward,      // num_rows, width (of the output), weighted (0|1): by a factor for each row
  kSwiGluBackward,     // num_rows, width (of the output), weighted (0|1)
  kRope,               // num_rows, num_heads (q and k together), head_dim, inverse (0|1)
  // batch, sequence, num_heads, num_kv_heads, head_dim (of queries and keys), AttentionStats; then,
  // where they differ from the plain case: sequence of keys and values (0: as the queries'),
  // head_dim of values (0: as the keys'), window (0: none), AttentionMask, AttentionSums, drops
  // (0|1) probabilities.
  kAttentionForward,
  kAttentionBackward,
  kEmbeddingForward,    // num_rows, width, vocab rows held here
  kEmbeddingBackward,   // num_rows, width, vocab rows held here
  kPositionForward,     // num_rows, width
  kPositionBackward,    // num_rows, width
  kCrossEntropyMax,     // num_rows, vocab columns held here
  kCrossEntropySumExp,  // num_rows, vocab columns held here
  kCrossEntropyGrad,    // num_rows, vocab columns held here
  // Mixture of experts. A routed row is a token on its way to one of its experts.
  kRouterForward,   // num_rows, num_experts, experts per row: softmax and choice, fp32
  kRouterBackward,  // num_rows, num_experts, experts per row: of auxiliary losses too
  kExpertCount,     // num_rows, num_experts, experts per row: rows that chose each expert
  kTokenPermute,    // routed rows, width, tokens: rows in the experts' order
  kTokenUnpermute,  // routed rows, width, tokens: each token the sum of its rows
  // m, n, k, MatMulLayout, accumulate (0|1), Epilogue, num_groups: a product for each of num_groups
  // experts, between which the rows (m; of kTN: k) lie evenly split.
  kGroupedMatMul,
  kWeightedGeluForward,   // num_rows, width: GELU by a factor for each row
  kWeightedGeluBackward,  // num_rows, width
  // num_rows, num_heads, head_dim, inverse (0|1): keys of latent attention from each head's own
  // part and the rotary part that all share; inverse: their gradients apart.
  kKeyAssembly,
  kSumOfSquares,    // number of elements
  kAdamW,           // number of elements
  kScale,           // number of elements
  kAdd,             // number of elements
  kFill,            // number of elements
  kCopy,            // number of elements
  kCast,            // number of elements, from one floating-point type to another
  kCopyRows,        // num_rows, width: rows that lie apart, also from one type to another
  kDropout,         // num_rows, width
  kLogSumExpMerge,  // batch, sequence, num_heads, head_dim: attention over two sets of keys
  kSumBlocks,       // elements of a block, num_blocks
  kAllReduce,       // elements per rank, group size, axis, ReduceOp
  kReduceScatter,   // elements of the input per rank, group size, axis
  kAllGather,       // elements of the output per rank, group size, axis
  kBroadcast,       // elements, group size, axis
  kAllToAll,        // elements per rank, group size, axis, copies of each token among them (0: one)
  kSend,            // elements, group size, axis, bytes of an element
  kRecv,            // elements, group size, axis, bytes of an element
  kBarrier,         // group size, axis
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

// Which keys a query attends to.
enum class AttentionMask : uint8_t {
  kCausal,  // those up to its own position, where the last query's is the last key's
  kFull,    // all
};

// Which gradients of attention's inputs are added to sums in fp32 instead of being stored.
enum class AttentionSums : uint8_t { kNone, kKeysAndValues, kAll };

enum class ReduceOp : uint8_t { kSum, kMax, kMin, kAvg };

using OpDims = std::array<int64_t, 12>;

struct OpRecord {
  OpKind kind = OpKind::kFill;
  OpDims dims = {};  // zeros beyond those that the kind has
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
