#include "kernels/cuda/fused_attention.h"

#include <cstddef>
#include <utility>

namespace tessera::kernels::cuda {
namespace {

constexpr int64_t kVectorBytes = 16;  // of the library's loads and stores
constexpr int64_t kBytes = 2;         // of a number
constexpr int64_t kStatsBytes = 4;

int64_t NextSmallerDivisor(int64_t n, int64_t divisor) {
  do --divisor;
  while (n % divisor != 0);
  return divisor;
}

AttentionShape PieceOf(AttentionShape shape, int64_t batch, int64_t num_kv_heads) {
  shape.batch = batch;
  shape.num_heads = shape.num_heads / shape.num_kv_heads * num_kv_heads;
  shape.num_kv_heads = num_kv_heads;
  return shape;
}

template <typename Args>
AttentionShape ShapeOf(const Args& args) {
  return {.dtype = args.q.dtype,
          .batch = args.batch,
          .sequence = args.sequence,
          .num_heads = args.num_heads,
          .num_kv_heads = args.num_kv_heads,
          .head_dim = args.head_dim,
          .qkv_stride = args.qkv_stride,
          .out_stride = args.out_stride,
          .stats_stride = args.num_heads * args.sequence,
          .scale = args.scale};
}

// Square and causal, of one document a sample, from rows that lie one behind the other. The
// library's own dropout draws other numbers than the masks of every layout are made of.
template <typename Args>
bool IsPlain(const Args& args) {
  return args.dropout.probability == 0 && !args.documents &&
         args.mask == base::AttentionMask::kCausal && args.key_sequence == args.sequence &&
         args.query_rows == args.sequence && args.key_rows == args.sequence &&
         args.kv_stride == args.qkv_stride;
}

}  // namespace

// The tensors that both passes have.
template <typename Args>
FusedAttention::Operands FusedAttention::CommonOperands(const Args& args) {
  const int64_t group = args.num_heads / args.num_kv_heads;
  const int64_t qkv_sample = args.sequence * args.qkv_stride * kBytes;
  const int64_t head = args.head_dim * kBytes;
  Operands operands = {};
  operands[kQ] = {args.q.data, qkv_sample, group * head};
  operands[kK] = {args.k.data, qkv_sample, head};
  operands[kV] = {args.v.data, qkv_sample, head};
  operands[kOut] = {args.out.data, args.sequence * args.out_stride * kBytes, group * head};
  operands[kStats] = {args.stats.data, args.num_heads * args.sequence * kStatsBytes,
                      group * args.sequence * kStatsBytes};
  return operands;
}

bool FusedAttention::IsFusible(const AttentionShape& shape, base::AttentionStats stats_kind,
                               const Operands& operands) {
  if (stats_kind != base::AttentionStats::kLogSumExp) return false;
  if (shape.dtype != base::DType::kBFloat16 && shape.dtype != base::DType::kFloat16) return false;
  for (const int64_t n : {shape.head_dim, shape.qkv_stride, shape.out_stride, shape.dqkv_stride}) {
    if (n * kBytes % kVectorBytes != 0) return false;
  }
  for (const Operand& operand : operands) {
    if (reinterpret_cast<uintptr_t>(operand.data) % kVectorBytes != 0) return false;
  }
  return true;
}

// What a backward pass is known to need, so that no time is lost building one that cannot run: dq
// and a sum a row in fp32, and, where query heads share keys, dk and dv of each.
int64_t FusedAttention::LeastWorkspaceBytes(const AttentionShape& piece) {
  if (!piece.is_backward) return 0;
  const int64_t num_rows = piece.batch * piece.num_heads * piece.sequence;
  const int64_t shared_bytes =
      piece.num_heads == piece.num_kv_heads ? 0 : num_rows * piece.head_dim * 2 * kBytes;
  return num_rows * (piece.head_dim + 1) * 4 + shared_bytes;
}

FusedAttention::Pieces FusedAttention::MakePieces(const AttentionShape& shape,
                                                  int64_t scratch_bytes) {
  Pieces pieces{.graph = nullptr, .batch = shape.batch, .num_kv_heads = shape.num_kv_heads};
  while (true) {
    const AttentionShape piece = PieceOf(shape, pieces.batch, pieces.num_kv_heads);
    if (LeastWorkspaceBytes(piece) <= scratch_bytes) {
      pieces.graph = library_->Build(piece);
      if (!pieces.graph || pieces.graph->workspace_bytes() <= scratch_bytes) return pieces;
    }
    if (pieces.batch > 1) {
      pieces.batch = NextSmallerDivisor(shape.batch, pieces.batch);
    } else if (pieces.num_kv_heads > 1) {
      pieces.num_kv_heads = NextSmallerDivisor(shape.num_kv_heads, pieces.num_kv_heads);
    } else {
      return {};
    }
  }
}

bool FusedAttention::Run(const LaunchContext& context, const AttentionShape& shape,
                         const Operands& operands) {
  auto found = pieces_.find(shape);
  if (found == pieces_.end()) {
    found = pieces_.emplace(shape, MakePieces(shape, context.scratch_bytes)).first;
  }
  const Pieces& pieces = found->second;
  if (!pieces.graph || pieces.graph->workspace_bytes() > context.scratch_bytes) return false;
  for (int64_t sample = 0; sample < shape.batch; sample += pieces.batch) {
    for (int64_t head = 0; head < shape.num_kv_heads; head += pieces.num_kv_heads) {
      AttentionMemory memory = {};
      for (int i = 0; i < kNumAttentionTensors; ++i) {
        const Operand& operand = operands[i];
        if (operand.data == nullptr) continue;
        const auto* begin = static_cast<const std::byte*>(operand.data) +
                            sample * operand.sample_bytes + head * operand.head_bytes;
        memory[i] = const_cast<std::byte*>(begin);
      }
      pieces.graph->Run(memory, context.scratch, context.stream);
    }
  }
  return true;
}

bool FusedAttention::Forward(const LaunchContext& context, const AttentionForwardArgs& args) {
  if (!library_ || !IsPlain(args)) return false;
  const Operands operands = CommonOperands(args);
  const AttentionShape shape = ShapeOf(args);
  return IsFusible(shape, args.stats_kind, operands) && Run(context, shape, operands);
}

bool FusedAttention::Backward(const LaunchContext& context, const AttentionBackwardArgs& args) {
  if (!library_ || !IsPlain(args) || args.sums != base::AttentionSums::kNone ||
      args.dkv_stride != args.dqkv_stride) {
    return false;
  }
  AttentionShape shape = ShapeOf(args);
  shape.is_backward = true;
  shape.is_deterministic = deterministic_;
  shape.dqkv_stride = args.dqkv_stride;
  Operands operands = CommonOperands(args);
  const int64_t sample_bytes = args.sequence * args.dqkv_stride * kBytes;
  operands[kDout] = operands[kOut];
  operands[kDout].data = args.dout.data;
  operands[kDq] = {args.dq.data, sample_bytes, operands[kQ].head_bytes};
  operands[kDk] = {args.dk.data, sample_bytes, operands[kK].head_bytes};
  operands[kDv] = {args.dv.data, sample_bytes, operands[kV].head_bytes};
  return IsFusible(shape, args.stats_kind, operands) && Run(context, shape, operands);
}

}  // namespace tessera::kernels::cuda
