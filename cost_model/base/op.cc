#include "cost_model/base/op.h"

#include "cost_model/base/check.h"

namespace tessera::base {

std::string_view ToString(OpKind kind) {
  switch (kind) {
    case OpKind::kMatMul:
      return "matmul";
    case OpKind::kLayerNormForward:
      return "layer_norm_forward";
    case OpKind::kLayerNormBackward:
      return "layer_norm_backward";
    case OpKind::kRmsNormForward:
      return "rms_norm_forward";
    case OpKind::kRmsNormBackward:
      return "rms_norm_backward";
    case OpKind::kResidualAdd:
      return "residual_add";
    case OpKind::kBiasGrad:
      return "bias_grad";
    case OpKind::kSwiGluForward:
      return "swiglu_forward";
    case OpKind::kSwiGluBackward:
      return "swiglu_backward";
    case OpKind::kRope:
      return "rope";
    case OpKind::kAttentionForward:
      return "attention_forward";
    case OpKind::kAttentionBackward:
      return "attention_backward";
    case OpKind::kEmbeddingForward:
      return "embedding_forward";
    case OpKind::kEmbeddingBackward:
      return "embedding_backward";
    case OpKind::kPositionForward:
      return "position_forward";
    case OpKind::kPositionBackward:
      return "position_backward";
    case OpKind::kCrossEntropyMax:
      return "cross_entropy_max";
    case OpKind::kCrossEntropySumExp:
      return "cross_entropy_sum_exp";
    case OpKind::kCrossEntropyGrad:
      return "cross_entropy_grad";
    case OpKind::kRouterForward:
      return "router_forward";
    case OpKind::kRouterBackward:
      return "router_backward";
    case OpKind::kExpertCount:
      return "expert_count";
    case OpKind::kTokenPermute:
      return "token_permute";
    case OpKind::kTokenUnpermute:
      return "token_unpermute";
    case OpKind::kGroupedMatMul:
      return "grouped_matmul";
    case OpKind::kWeightedGeluForward:
      return "weighted_gelu_forward";
    case OpKind::kWeightedGeluBackward:
      return "weighted_gelu_backward";
    case OpKind::kKeyAssembly:
      return "key_assembly";
    case OpKind::kSumOfSquares:
      return "sum_of_squares";
    case OpKind::kAdamW:
      return "adamw";
    case OpKind::kScale:
      return "scale";
    case OpKind::kAdd:
      return "add";
    case OpKind::kFill:
      return "fill";
    case OpKind::kCopy:
      return "copy";
    case OpKind::kCast:
      return "cast";
    case OpKind::kCopyRows:
      return "copy_rows";
    case OpKind::kDropout:
      return "dropout";
    case OpKind::kLogSumExpMerge:
      return "log_sum_exp_merge";
    case OpKind::kSumBlocks:
      return "sum_blocks";
    case OpKind::kAllReduce:
      return "all_reduce";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
    case OpKind::kAllGather:
      return "all_gather";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kAllToAll:
      return "all_to_all";
    case OpKind::kSend:
      return "send";
    case OpKind::kRecv:
      return "recv";
    case OpKind::kBarrier:
      return "barrier";
  }
  FailCheck(__FILE__, __LINE__, "known OpKind", static_cast<int>(kind));
}

std::string ToString(const OpRecord& record) {
  std::string text(ToString(record.kind));
  size_t num_dims = record.dims.size();
  while (num_dims > 0 && record.dims[num_dims - 1] == 0) --num_dims;
  for (size_t i = 0; i < num_dims; ++i) {
    text += i == 0 ? ' ' : ',';
    text += std::to_string(record.dims[i]);
  }
  return text;
}

}  // namespace tessera::base
