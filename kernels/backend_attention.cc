// Shape checks and reports of attention.
#include "kernels/backend.h"
#include "kernels/op_checks.h"

namespace tessera::kernels {
namespace {

using base::OpKind;
using base::OpRecord;

int64_t Or(int64_t value, int64_t otherwise) { return value != 0 ? value : otherwise; }

// Forward and backward share the members that give the shape. Fills in what was left out.
template <typename Args>
void CompleteAttention(Args& args) {
  args.key_sequence = Or(args.key_sequence, args.sequence);
  args.query_rows = Or(args.query_rows, args.sequence);
  args.key_rows = Or(args.key_rows, args.key_sequence);
  args.kv_stride = Or(args.kv_stride, args.qkv_stride);
}

// Of complete arguments.
template <typename Args>
OpRecord CheckAttentionShape(OpKind kind, const Args& args, base::AttentionSums sums) {
  const OpRecord record{kind,
                        {args.batch, args.sequence, args.num_heads, args.num_kv_heads,
                         args.head_dim, static_cast<int64_t>(args.stats_kind),
                         args.key_sequence == args.sequence ? 0 : args.key_sequence,
                         /*head_dim of values=*/0, /*window=*/0, static_cast<int64_t>(args.mask),
                         static_cast<int64_t>(sums), Flag(args.dropout.probability > 0)}};
  CheckPositive(record, {args.batch, args.sequence, args.num_heads, args.num_kv_heads,
                         args.head_dim, args.key_sequence});
  TESSERA_CHECK(args.num_heads % args.num_kv_heads == 0, base::ToString(record));
  TESSERA_CHECK(args.mask == base::AttentionMask::kFull || args.key_sequence >= args.sequence,
                "queries before the first key of ", base::ToString(record));
  TESSERA_CHECK(args.query_rows >= args.sequence && args.key_rows >= args.key_sequence,
                "samples of ", args.query_rows, " and ", args.key_rows, " rows of ",
                base::ToString(record));
  TESSERA_CHECK(args.qkv_stride >= args.num_heads * args.head_dim, "qkv_stride ", args.qkv_stride,
                " of ", base::ToString(record));
  TESSERA_CHECK(args.kv_stride >= args.num_kv_heads * args.head_dim, "kv_stride ", args.kv_stride,
                " of ", base::ToString(record));
  TESSERA_CHECK(args.out_stride >= args.num_heads * args.head_dim, "out_stride ", args.out_stride,
                " of ", base::ToString(record));
  CheckProbability(args.dropout.probability);
  TESSERA_CHECK(!args.documents || args.documents.of_samples.sequence >= args.key_sequence,
                "documents of samples of ", args.documents.of_samples.sequence, " tokens of ",
                base::ToString(record));
  return record;
}

void CheckSums(const OpRecord& record, const AttentionBackwardArgs& args) {
  const auto is_fp32 = [](const Array& x) { return x.dtype == base::DType::kFloat32; };
  TESSERA_CHECK(args.sums != base::AttentionSums::kAll || is_fp32(args.dq), "sums of dq in ",
                base::ToString(args.dq.dtype), " of ", base::ToString(record));
  TESSERA_CHECK(args.sums == base::AttentionSums::kNone || (is_fp32(args.dk) && is_fp32(args.dv)),
                "sums of dk in ", base::ToString(args.dk.dtype), " of ", base::ToString(record));
}

}  // namespace

AttentionForwardArgs Completed(AttentionForwardArgs args) {
  CompleteAttention(args);
  return args;
}

AttentionBackwardArgs Completed(AttentionBackwardArgs args) {
  CompleteAttention(args);
  args.dkv_stride = Or(args.dkv_stride, args.dqkv_stride);
  return args;
}

LogSumExpMergeArgs Completed(LogSumExpMergeArgs args) {
  args.sample_rows = Or(args.sample_rows, args.sequence);
  return args;
}

void Backend::AttentionForward(AttentionForwardArgs args) {
  args = Completed(args);
  const OpRecord record =
      CheckAttentionShape(OpKind::kAttentionForward, args, base::AttentionSums::kNone);
  CheckPresent(record.kind, {args.q, args.k, args.v, args.out, args.stats});
  const ObservedOp op(observer_, record);
  DoAttentionForward(args);
}

void Backend::AttentionBackward(AttentionBackwardArgs args) {
  args = Completed(args);
  const OpRecord record = CheckAttentionShape(OpKind::kAttentionBackward, args, args.sums);
  CheckPresent(record.kind, {args.dout, args.q, args.k, args.v, args.out, args.stats, args.dq,
                             args.dk, args.dv});
  TESSERA_CHECK(args.dqkv_stride >= args.num_heads * args.head_dim, "dqkv_stride ",
                args.dqkv_stride, " of ", base::ToString(record));
  TESSERA_CHECK(args.dkv_stride >= args.num_kv_heads * args.head_dim, "dkv_stride ",
                args.dkv_stride, " of ", base::ToString(record));
  CheckSums(record, args);
  const ObservedOp op(observer_, record);
  DoAttentionBackward(args);
}

void Backend::LogSumExpMerge(LogSumExpMergeArgs args) {
  const OpRecord record{OpKind::kLogSumExpMerge,
                        {args.batch, args.sequence, args.num_heads, args.head_dim}};
  CheckPositive(record, {args.batch, args.sequence, args.num_heads, args.head_dim});
  CheckPresent(record.kind, {args.block_out, args.block_stats, args.out, args.stats});
  args = Completed(args);
  TESSERA_CHECK(args.sample_rows >= args.sequence, "samples of ", args.sample_rows, " rows of ",
                base::ToString(record));
  const ObservedOp op(observer_, record);
  DoLogSumExpMerge(args);
}

}  // namespace tessera::kernels
