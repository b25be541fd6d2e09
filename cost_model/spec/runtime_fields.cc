// The JSON keys of a runtime: declared in spec_fields.h.
#include "cost_model/spec/spec_fields.h"

namespace tessera::spec {
namespace {

void VisitRuntimeMemory(FieldVisitor& fields, RuntimeSpec& runtime) {
  fields.Flag("autograd", runtime.autograd, kOptional);
  fields.Flag("keeps_gathered_inputs", runtime.keeps_gathered_inputs, kOptional);
  fields.Flag("keeps_alternate_products", runtime.keeps_alternate_products, kOptional);
  fields.Flag("keeps_stage_outputs", runtime.keeps_stage_outputs, kOptional);
  fields.Flag("fp32_logits_gradient", runtime.fp32_logits_gradient, kOptional);
  fields.Integer("fp32_logits_copies", runtime.fp32_logits_copies, kCountRange, kOptional);
  fields.Integer("sharded_fp32_logits_copies", runtime.sharded_fp32_logits_copies, kCountRange,
                 kOptional);
  fields.Flag("weight_gradient_placeholders", runtime.weight_gradient_placeholders, kOptional);
  fields.Flag("fp32_parameters", runtime.fp32_parameters, kOptional);
  fields.Flag("compute_type_gradients", runtime.compute_type_gradients, kOptional);
  fields.Flag("fp32_gradient_shard", runtime.fp32_gradient_shard, kOptional);
  fields.Number("update_bytes_per_parameter", runtime.update_bytes_per_parameter, kNotNegative,
                kOptional);
  fields.Flag("flattens_gradients", runtime.flattens_gradients, kOptional);
  fields.Flag("splits_updates", runtime.splits_updates, kOptional);
  fields.Flag("gathers_embedding_and_head", runtime.gathers_embedding_and_head, kOptional);
  fields.Flag("shards_position_embedding", runtime.shards_position_embedding, kOptional);
  fields.Integer("communication_buffer_elements", runtime.communication_buffer_elements,
                 kCountRange, kOptional);
  fields.Number("allocator_reserve", runtime.allocator_reserve, kNotNegative, kOptional);
  fields.Number("allocator_reserve_margin", runtime.allocator_reserve_margin, kNotNegative,
                kOptional);
  fields.Text("memory_tag", runtime.memory_tag, kOptional);
  fields.Text("memory_source", runtime.memory_source, kOptional);
}

}  // namespace

void VisitRuntime(FieldVisitor& fields, RuntimeSpec& runtime) {
  fields.Text("name", runtime.name);
  fields.Remark("source");
  fields.Flag("fused_norm", runtime.fused_norm, kOptional);
  fields.Flag("product_epilogues", runtime.product_epilogues, kOptional);
  fields.Flag("attention_copies", runtime.attention_copies, kOptional);
  fields.Flag("fused_activation", runtime.fused_activation, kOptional);
  fields.Flag("fused_softmax", runtime.fused_softmax, kOptional);
  fields.Integer("fused_softmax_max_keys", runtime.fused_softmax_max_keys, kCountRange, kOptional);
  fields.Integer("fused_softmax_heads_multiple", runtime.fused_softmax_heads_multiple, kSizeRange,
                 kOptional);
  fields.Flag("fused_residual", runtime.fused_residual, kOptional);
  fields.Flag("fused_rope", runtime.fused_rope, kOptional);
  fields.Flag("fused_cross_entropy", runtime.fused_cross_entropy, kOptional);
  fields.Flag("fused_permute", runtime.fused_permute, kOptional);
  fields.Flag("deduplicated_dispatch", runtime.deduplicated_dispatch, kOptional);
  fields.Flag("fused_optimizer", runtime.fused_optimizer, kOptional);
  fields.Flag("fused_gradient_accumulation", runtime.fused_gradient_accumulation, kOptional);
  fields.Flag("hidden_dropout", runtime.hidden_dropout, kOptional);
  fields.Flag("attention_dropout", runtime.attention_dropout, kOptional);
  fields.Number("fused_attention_time_factor", runtime.fused_attention_time_factor, kPositive,
                kOptional);
  fields.Flag("tensor_comm_beside_weight_gradients", runtime.tensor_comm_beside_weight_gradients,
              kOptional);
  fields.Flag("tensor_comm_in_pieces", runtime.tensor_comm_in_pieces, kOptional);
  fields.Number("host_time_factor", runtime.host_time_factor, kNotNegative, kOptional);
  fields.Flag("layers_start_idle", runtime.layers_start_idle, kOptional);
  VisitRuntimeMemory(fields, runtime);
  fields.Texts("schedules", runtime.schedules, kOptional);
  fields.Integer("max_zero_stage", runtime.max_zero_stage, {.minimum = 0, .maximum = 3}, kOptional);
  fields.Flag("context_parallel", runtime.context_parallel, kOptional);
  fields.Flag("expert_parallel", runtime.expert_parallel, kOptional);
  fields.Flag("uneven_stages", runtime.uneven_stages, kOptional);
  fields.Flag("per_stage_recompute", runtime.per_stage_recompute, kOptional);
  fields.Flag("optimizer_offload", runtime.optimizer_offload, kOptional);
}

}  // namespace tessera::spec
