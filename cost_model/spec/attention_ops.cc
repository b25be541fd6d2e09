#include "cost_model/spec/attention_ops.h"

#include "cost_model/spec/context_ops.h"

namespace tessera::spec {
namespace {

using base::OpKind;

void WriteRope(OpWriter& write, int64_t num_heads, int64_t head_dim, bool inverse) {
  if (write.model().position != PositionKind::kRope) return;
  write.Add(OpKind::kRope, {write.shape().tokens, num_heads, head_dim, inverse});
}

// Queries, keys and values of one product.
void WriteProjectionForward(OpWriter& write) {
  const ModelSpec& model = write.model();
  const LocalShape& shape = write.shape();
  write.GatherTokens();
  write.Linear(shape.tokens, shape.qkv_width, shape.hidden, BiasEpilogue(model.qkv_bias));
  if (model.qk_norm) {
    write.RmsNormForward(shape.tokens * shape.heads, shape.head_dim);
    write.RmsNormForward(shape.tokens * shape.kv_heads, shape.head_dim);
  }
  WriteRope(write, shape.heads + shape.kv_heads, shape.head_dim, /*inverse=*/false);
}

void WriteProjectionBackward(OpWriter& write) {
  const ModelSpec& model = write.model();
  const LocalShape& shape = write.shape();
  WriteRope(write, shape.heads + shape.kv_heads, shape.head_dim, /*inverse=*/true);
  if (model.qk_norm) {
    write.RmsNormBackward(shape.tokens * shape.heads, shape.head_dim);
    write.RmsNormBackward(shape.tokens * shape.kv_heads, shape.head_dim);
  }
  write.BiasGrad(model.qkv_bias, shape.tokens, shape.qkv_width);
  write.ColumnParallelBackward(shape.qkv_width, shape.hidden);
}

// Latent attention. Each rank narrows its own tokens, all ranks widen all tokens to their heads;
// the rotary part of the keys, one for all heads, travels with the latent keys and values.
void WriteLatentForward(OpWriter& write) {
  const MlaSpec& mla = *write.model().mla;
  const LocalShape& shape = write.shape();
  const int64_t query_width = shape.heads * shape.head_dim;
  if (mla.q_lora_rank > 0) {
    write.Linear(shape.local_tokens, mla.q_lora_rank, shape.hidden);
    write.RmsNormForward(shape.local_tokens, mla.q_lora_rank);
    write.GatherTokens(mla.q_lora_rank);
    write.Linear(shape.tokens, query_width, mla.q_lora_rank);
  } else {
    write.GatherTokens();
    write.Linear(shape.tokens, query_width, shape.hidden);
  }
  const int64_t kv_latent_width = mla.kv_lora_rank + mla.qk_rope_head_dim;
  write.Linear(shape.local_tokens, kv_latent_width, shape.hidden);
  write.RmsNormForward(shape.local_tokens, mla.kv_lora_rank);
  write.GatherTokens(kv_latent_width);
  write.Linear(shape.tokens, shape.heads * (mla.qk_nope_head_dim + mla.v_head_dim),
               mla.kv_lora_rank);
  WriteRope(write, shape.heads + 1, mla.qk_rope_head_dim, /*inverse=*/false);
  write.Add(OpKind::kKeyAssembly, {shape.tokens, shape.heads, shape.head_dim, 0});
}

void WriteLatentBackward(OpWriter& write) {
  const MlaSpec& mla = *write.model().mla;
  const LocalShape& shape = write.shape();
  const int64_t query_width = shape.heads * shape.head_dim;
  const int64_t key_value_width = shape.heads * (mla.qk_nope_head_dim + mla.v_head_dim);
  const int64_t kv_latent_width = mla.kv_lora_rank + mla.qk_rope_head_dim;
  write.Add(OpKind::kKeyAssembly, {shape.tokens, shape.heads, shape.head_dim, 1});
  WriteRope(write, shape.heads + 1, mla.qk_rope_head_dim, /*inverse=*/true);
  write.ColumnParallelBackward(key_value_width, mla.kv_lora_rank,
                               {.summed_width = kv_latent_width});
  write.RmsNormBackward(shape.local_tokens, mla.kv_lora_rank);
  write.DataGradient(shape.local_tokens, kv_latent_width, shape.hidden);
  write.WeightGradient(shape.local_tokens, kv_latent_width, shape.hidden);
  if (mla.q_lora_rank > 0) {
    write.ColumnParallelBackward(query_width, mla.q_lora_rank);
    write.RmsNormBackward(shape.local_tokens, mla.q_lora_rank);
    write.DataGradient(shape.local_tokens, mla.q_lora_rank, shape.hidden);
    write.WeightGradient(shape.local_tokens, mla.q_lora_rank, shape.hidden);
  } else {
    write.ColumnParallelBackward(query_width, shape.hidden);
  }
  // The two gradients of the norm's output meet.
  write.Sum();
}

}  // namespace

void WriteAttentionForward(OpWriter& write, const LayerForm& form) {
  const LocalShape& shape = write.shape();
  write.NormForward();
  if (write.model().mla) {
    WriteLatentForward(write);
  } else {
    WriteProjectionForward(write);
  }
  WriteAttentionCore(write, OpKind::kAttentionForward, form);
  write.Linear(shape.tokens, shape.hidden, shape.attention_width);
  write.ReducePartialSums();
  write.ResidualAdd(write.model().attention_output_bias);
}

void WriteAttentionBackward(OpWriter& write, const LayerForm& form, Recompute recompute) {
  const ModelSpec& model = write.model();
  const LocalShape& shape = write.shape();
  write.BranchGradient();
  write.BiasGrad(model.attention_output_bias, shape.local_tokens, shape.hidden);
  write.GatherTokens();
  write.DataGradient(shape.tokens, shape.hidden, shape.attention_width);
  write.WeightGradient(shape.tokens, shape.hidden, shape.attention_width);
  if (recompute == Recompute::kSelective) {
    write.set_recomputed(true);
    WriteAttentionCoreAgain(write, form);
    write.set_recomputed(false);
  }
  WriteAttentionCore(write, OpKind::kAttentionBackward, form);
  if (model.mla) {
    WriteLatentBackward(write);
  } else {
    WriteProjectionBackward(write);
  }
  write.NormBackward(/*adds_residual=*/true);
}

}  // namespace tessera::spec
