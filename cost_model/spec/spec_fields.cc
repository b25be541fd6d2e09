#include "cost_model/spec/spec_fields.h"

namespace tessera::spec {
namespace {

constexpr NumberRange kShare = {.minimum = 0, .maximum = 1};

void VisitRopeScaling(FieldVisitor& fields, RopeScaling& scaling) {
  fields.Number("factor", scaling.factor, kPositive);
  fields.Number("low_freq_factor", scaling.low_freq_factor, kPositive);
  fields.Number("high_freq_factor", scaling.high_freq_factor, kPositive);
  fields.Integer("original_max_sequence_length", scaling.original_max_sequence_length, kSizeRange);
}

void VisitMoe(FieldVisitor& fields, MoeSpec& moe) {
  fields.Integer("num_experts", moe.num_experts, kSizeRange);
  fields.Integer("experts_per_token", moe.experts_per_token, kSizeRange);
  fields.Integer("expert_ffn_hidden_size", moe.expert_ffn_hidden_size, kSizeRange);
  fields.Integer("shared_expert_ffn_hidden_size", moe.shared_expert_ffn_hidden_size, kCountRange,
                 kOptional);
  fields.Flag("shared_expert_gate", moe.shared_expert_gate, kOptional);
  fields.Integer("num_leading_dense_layers", moe.num_leading_dense_layers, kCountRange, kOptional);
  fields.Number("capacity_factor", moe.capacity_factor, kNotNegative, kOptional);
  fields.Flag("normalized_router_weights", moe.normalized_router_weights, kOptional);
  fields.Number("auxiliary_loss_coefficient", moe.auxiliary_loss_coefficient, kNotNegative,
                kOptional);
  fields.Number("z_loss_coefficient", moe.z_loss_coefficient, kNotNegative, kOptional);
  fields.Flag("forced_uniform_routing", moe.forced_uniform_routing, kOptional);
}

void VisitMla(FieldVisitor& fields, MlaSpec& mla) {
  fields.Integer("q_lora_rank", mla.q_lora_rank, kCountRange, kOptional);
  fields.Integer("kv_lora_rank", mla.kv_lora_rank, kSizeRange);
  fields.Integer("qk_nope_head_dim", mla.qk_nope_head_dim, kSizeRange);
  fields.Integer("qk_rope_head_dim", mla.qk_rope_head_dim, kSizeRange);
  fields.Integer("v_head_dim", mla.v_head_dim, kSizeRange);
}

void VisitSlidingWindow(FieldVisitor& fields, SlidingWindowSpec& window) {
  fields.Integer("size", window.size, kSizeRange);
  fields.Integer("full_attention_interval", window.full_attention_interval, kCountRange, kOptional);
}

// Visits the section `key` where there is one.
template <typename Section>
void VisitOptional(FieldVisitor& fields, const std::string& key, std::optional<Section>& section,
                   void (*visit)(FieldVisitor&, Section&)) {
  if (!fields.Present(key, section.has_value())) return;
  if (!section) section.emplace();
  fields.Object(key, [&](FieldVisitor& inner) { visit(inner, *section); });
}

// FLOP/s by the input type of matrix products.
void VisitRates(FieldVisitor& fields, std::map<base::DType, double>& rates) {
  using base::DType;
  for (const DType type :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8, DType::kFloat4}) {
    const std::string name(base::ToString(type));
    if (fields.Present(name, rates.count(type) > 0)) fields.Number(name, rates[type], kPositive);
  }
}

void VisitKernels(FieldVisitor& fields, KernelSpec& kernels) {
  fields.Integer("num_compute_units", kernels.num_compute_units, kSizeRange);
  fields.Integer("largest_tile_rows", kernels.largest_tile_rows, kSizeRange);
  fields.Integer("largest_tile_columns", kernels.largest_tile_columns, kSizeRange);
  fields.Integer("smallest_tile", kernels.smallest_tile, kSizeRange);
  fields.Object("sustained_flops_per_s",
                [&](FieldVisitor& rates) { VisitRates(rates, kernels.sustained_flops_per_s); });
  fields.Number("tile_load_cost", kernels.tile_load_cost, kNotNegative);
  fields.Number("tile_overhead_k", kernels.tile_overhead_k, kNotNegative);
  fields.Number("misaligned_time_factor", kernels.misaligned_time_factor, kPositive,
                Presence::kOptional);
  fields.Number("misaligned_batch_time_factor", kernels.misaligned_batch_time_factor, kPositive,
                Presence::kOptional);
  fields.Number("attention_forward_efficiency", kernels.attention_forward_efficiency, kFraction);
  fields.Number("attention_backward_efficiency", kernels.attention_backward_efficiency, kFraction);
  fields.Number("scores_per_s", kernels.scores_per_s, kPositive);
  fields.Number("host_s_per_kernel", kernels.host_s_per_kernel, kNotNegative);
  fields.Number("host_s_per_collective", kernels.host_s_per_collective, kNotNegative);
}

void VisitDevice(FieldVisitor& fields, DeviceSpec& device) {
  fields.Text("name", device.name);
  fields.Integer("memory_bytes", device.memory_bytes, {.minimum = 1});
  fields.Integer("reserved_memory_bytes", device.reserved_memory_bytes, kBytesRange, kOptional);
  fields.Integer("communicator_memory_bytes", device.communicator_memory_bytes, kBytesRange,
                 kOptional);
  fields.Integer("matmul_workspace_bytes", device.matmul_workspace_bytes, kBytesRange, kOptional);
  fields.Number("memory_bandwidth_bytes_per_s", device.memory_bandwidth_bytes_per_s, kPositive);
  fields.Object("peak_flops_per_s",
                [&](FieldVisitor& peaks) { VisitRates(peaks, device.peak_flops_per_s); });
  fields.Number("launch_overhead_s", device.launch_overhead_s, kNotNegative, kOptional);
  fields.Table("matmul_efficiency_by_flops", device.matmul_efficiency);
  fields.Table("attention_efficiency_by_flops", device.attention_efficiency);
  fields.Table("memory_efficiency_by_bytes", device.memory_efficiency);
  VisitOptional(fields, "kernels", device.kernels, VisitKernels);
  fields.Number("power_w", device.power_w, kNotNegative, kOptional);
  fields.Number("price_per_hour_usd", device.price_per_hour, kNotNegative, kOptional);
}

void VisitLink(FieldVisitor& fields, LinkSpec& link) {
  fields.Number("bandwidth_bytes_per_s", link.bandwidth_bytes_per_s, kPositive);
  fields.Number("latency_s", link.latency_s, kNotNegative);
  fields.Number("efficiency", link.efficiency, kFraction, kOptional);
  fields.Table("size_efficiency_by_bytes", link.size_efficiency);
}

void VisitCollectives(FieldVisitor& fields, CollectiveSpec& collectives) {
  fields.Number("overhead_s", collectives.overhead_s, kNotNegative, kOptional);
  if (fields.Present("protocols", !collectives.protocols.empty())) {
    fields.Objects(
        "protocols", collectives.protocols.size(),
        [&](std::size_t size) { collectives.protocols.resize(size); },
        [&](FieldVisitor& inner, std::size_t i) {
          ProtocolSpec& protocol = collectives.protocols[i];
          inner.Number("bandwidth_share", protocol.bandwidth_share, kFraction);
          inner.Number("intra_node_latency_s", protocol.intra_node_latency_s, kNotNegative);
          inner.Number("inter_node_latency_s", protocol.inter_node_latency_s, kNotNegative);
        });
  }
  fields.Flag("hierarchical", collectives.hierarchical, kOptional);
  fields.Number("tree_efficiency", collectives.tree_efficiency, kShare, kOptional);
  fields.Number("nvls_efficiency", collectives.nvls_efficiency, kShare, kOptional);
  fields.Number("nvls_latency_s", collectives.nvls_latency_s, kNotNegative, kOptional);
  fields.Number("overlap_slowdown", collectives.overlap_slowdown, kNotNegative, kOptional);
}

void VisitFabric(FieldVisitor& fields, FabricSpec& fabric) {
  fields.Flag("rail_nics", fabric.rail_nics, kOptional);
  fields.Integer("pod_nodes", fabric.pod_nodes, kCountRange, kOptional);
  fields.Number("oversubscription", fabric.oversubscription, {.minimum = 1}, kOptional);
}

// Whatever is not said in a section of a cluster file keeps its default.
template <typename Section>
void VisitSection(FieldVisitor& fields, const std::string& key, Section& section,
                  void (*visit)(FieldVisitor&, Section&)) {
  if (!fields.Present(key, section != Section{})) return;
  fields.Object(key, [&](FieldVisitor& inner) { visit(inner, section); });
}

// The optimizer's keys, flat in a hyper-parameter file and in a section of their own in a plan.
void VisitOptimizer(FieldVisitor& fields, OptimizerSpec& optimizer, Presence presence) {
  const NumberRange beta = {.minimum = 0, .maximum = 1};
  fields.Number("lr", optimizer.lr, kNotNegative, presence);
  fields.Number("min_lr", optimizer.min_lr, kNotNegative, presence);
  fields.Number("lr_warmup_init", optimizer.lr_warmup_init, kNotNegative, kOptional);
  fields.Integer("lr_warmup_steps", optimizer.lr_warmup_steps, kCountRange, presence);
  fields.Integer("lr_decay_steps", optimizer.lr_decay_steps, kCountRange, presence);
  fields.Mode("lr_decay_style", optimizer.lr_decay_style, presence);
  fields.Integer("lr_wsd_decay_steps", optimizer.lr_wsd_decay_steps, kCountRange, kOptional);
  fields.Mode("lr_wsd_decay_style", optimizer.lr_wsd_decay_style, kOptional);
  fields.Number("adam_beta1", optimizer.adam_beta1, beta, presence);
  fields.Number("adam_beta2", optimizer.adam_beta2, beta, presence);
  fields.Number("adam_eps", optimizer.adam_eps, kNotNegative, presence);
  fields.Number("weight_decay", optimizer.weight_decay, kNotNegative, presence);
  fields.Number("end_weight_decay", optimizer.end_weight_decay, kNotNegative, kOptional);
  fields.Mode("weight_decay_style", optimizer.weight_decay_style, kOptional);
  fields.Flag("decay_embeddings", optimizer.decay_embeddings, kOptional);
  fields.Number("clip_grad", optimizer.clip_grad, kNotNegative, presence);
}

void VisitBatchRamp(FieldVisitor& fields, BatchRamp& ramp) {
  fields.Integer("start_batch_size", ramp.start_batch_size, kSizeRange);
  fields.Integer("increment", ramp.increment, kSizeRange);
  fields.Integer("samples", ramp.samples, kSizeRange);
}

void VisitDocumentEnds(FieldVisitor& fields, TrainingSpec& training) {
  if (fields.Present("eod_token", training.eod_token >= 0)) {
    fields.Integer("eod_token", training.eod_token, kCountRange);
  }
  fields.Flag("eod_mask_loss", training.eod_mask_loss, kOptional);
  fields.Flag("reset_position_ids", training.reset_position_ids, kOptional);
  fields.Flag("reset_attention_mask", training.reset_attention_mask, kOptional);
}

void VisitDropout(FieldVisitor& fields, DropoutSpec& dropout) {
  fields.Number("hidden_dropout", dropout.hidden, kDropoutRange, kOptional);
  fields.Number("attention_dropout", dropout.attention, kDropoutRange, kOptional);
  fields.Number("embedding_dropout", dropout.embedding, kDropoutRange, kOptional);
}

void VisitTime(FieldVisitor& fields, TimeBreakdown& time) {
  // Derived: the sum of the section "compute" beside this one.
  double compute_s = time.Compute();
  fields.Number("compute_s", compute_s, kNotNegative);
  fields.Number("tp_comm_s", time.tp_comm_s, kNotNegative);
  fields.Number("pp_comm_s", time.pp_comm_s, kNotNegative);
  fields.Number("dp_comm_s", time.dp_comm_s, kNotNegative);
  fields.Number("cp_comm_s", time.cp_comm_s, kNotNegative);
  fields.Number("ep_comm_s", time.ep_comm_s, kNotNegative);
  fields.Number("bubble_s", time.bubble_s, kNotNegative);
  fields.Number("optimizer_s", time.optimizer_s, kNotNegative);
  fields.Number("other_s", time.other_s, {});
  if (fields.Present("straggler_s", time.straggler_s != 0)) {
    fields.Number("straggler_s", time.straggler_s, kNotNegative);
  }
}

void VisitStageMemory(FieldVisitor& fields, StageMemory& stage) {
  fields.Integer("weights_bytes", stage.weights_bytes, kBytesRange);
  fields.Integer("gradients_bytes", stage.gradients_bytes, kBytesRange);
  fields.Integer("optimizer_bytes", stage.optimizer_bytes, kBytesRange);
  fields.Integer("activations_bytes", stage.activations_bytes, kBytesRange);
  fields.Integer("buffers_bytes", stage.buffers_bytes, kBytesRange);
  fields.Integer("context_bytes", stage.context_bytes, kBytesRange, kOptional);
  fields.Integer("reserve_bytes", stage.reserve_bytes, kBytesRange, kOptional);
  if (!fields.Present("terms", !stage.terms.empty())) return;
  fields.Objects(
      "terms", stage.terms.size(), [&](std::size_t size) { stage.terms.resize(size); },
      [&](FieldVisitor& element, std::size_t i) {
        MemoryTerm& term = stage.terms[i];
        element.Text("name", term.name);
        element.Integer("bytes", term.num_bytes, kBytesRange);
        element.Text("tag", term.tag);
        element.Text("source", term.source);
      });
}

}  // namespace

void VisitModel(FieldVisitor& fields, ModelSpec& model) {
  fields.Text("name", model.name);
  fields.Remark("source");
  fields.Mode("norm", model.norm);
  fields.Mode("position", model.position);
  fields.Mode("activation", model.activation);
  fields.Integer("num_layers", model.num_layers, kSizeRange);
  fields.Integer("hidden_size", model.hidden_size, kSizeRange);
  fields.Integer("num_attention_heads", model.num_attention_heads, kSizeRange);
  fields.Integer("num_key_value_heads", model.num_key_value_heads, kSizeRange);
  fields.Integer("head_dim", model.head_dim, kSizeRange);
  fields.Integer("ffn_hidden_size", model.ffn_hidden_size, kSizeRange);
  fields.Integer("vocab_size", model.vocab_size, kSizeRange);
  fields.Integer("max_sequence_length", model.max_sequence_length, kSizeRange);
  fields.Flag("qkv_bias", model.qkv_bias);
  fields.Flag("qk_norm", model.qk_norm, kOptional);
  fields.Flag("attention_output_bias", model.attention_output_bias);
  fields.Flag("mlp_bias", model.mlp_bias);
  fields.Flag("tied_embeddings", model.tied_embeddings);
  fields.Number("norm_epsilon", model.norm_epsilon, kPositive);
  fields.Number("rope_theta", model.rope_theta, kPositive,
                model.position == PositionKind::kRope ? Presence::kRequired : kOptional);
  VisitOptional(fields, "rope_scaling", model.rope_scaling, VisitRopeScaling);
  VisitOptional(fields, "moe", model.moe, VisitMoe);
  VisitOptional(fields, "mla", model.mla, VisitMla);
  VisitOptional(fields, "sliding_window", model.sliding_window, VisitSlidingWindow);
  fields.Integer("num_multi_token_layers", model.num_multi_token_layers, kCountRange, kOptional);
  fields.Number("init_standard_deviation", model.init_standard_deviation, kPositive, kOptional);
}

void VisitCluster(FieldVisitor& fields, ClusterSpec& cluster) {
  fields.Text("name", cluster.name);
  fields.Remark("source");
  fields.Object("device", [&](FieldVisitor& section) { VisitDevice(section, cluster.device); });
  fields.Integer("devices_per_node", cluster.devices_per_node, kSizeRange);
  fields.Integer("nics_per_node", cluster.nics_per_node, kSizeRange);
  fields.Integer("devices_per_domain", cluster.devices_per_domain, kCountRange, kOptional);
  fields.Object("intra_node",
                [&](FieldVisitor& section) { VisitLink(section, cluster.intra_node); });
  fields.Object("inter_node",
                [&](FieldVisitor& section) { VisitLink(section, cluster.inter_node); });
  VisitSection(fields, "collectives", cluster.collectives, VisitCollectives);
  VisitSection(fields, "fabric", cluster.fabric, VisitFabric);
  fields.Number("pace_deviation", cluster.pace_deviation, kShare, kOptional);
  if (fields.Present("host", cluster.host != HostSpec{})) {
    fields.Object("host", [&](FieldVisitor& host) {
      host.Number("device_link_bandwidth_bytes_per_s",
                  cluster.host.device_link_bandwidth_bytes_per_s, kPositive);
      host.Number("memory_bandwidth_bytes_per_s", cluster.host.memory_bandwidth_bytes_per_s,
                  kPositive);
    });
  }
  fields.Integer("shared_compute_units", cluster.shared_compute_units, kCountRange, kOptional);
  fields.Integer("max_devices", cluster.max_devices, kCountRange, kOptional);
}

void VisitTraining(FieldVisitor& fields, TrainingSpec& training) {
  fields.Integer("global_batch_size", training.global_batch_size, kSizeRange);
  fields.Integer("sequence_length", training.sequence_length, kSizeRange);
  fields.Integer("steps", training.steps, kCountRange);
  VisitOptional(fields, "batch_ramp", training.batch_ramp, VisitBatchRamp);
  fields.Mode("precision", training.precision);
  fields.Unsigned("seed", training.seed, Presence::kRequired);
  VisitDocumentEnds(fields, training);
  fields.Object("optimizer", [&](FieldVisitor& section) {
    VisitOptimizer(section, training.optimizer, Presence::kRequired);
  });
  VisitDropout(fields, training.dropout);
}

void VisitHyperparameters(FieldVisitor& fields, TrainingSpec& training) {
  fields.Remark("source");
  fields.Integer("steps", training.steps, kCountRange, kOptional);
  fields.Integer("global_batch_size", training.global_batch_size, kSizeRange, kOptional);
  VisitOptional(fields, "batch_ramp", training.batch_ramp, VisitBatchRamp);
  fields.Integer("seq_length", training.sequence_length, kSizeRange, kOptional);
  VisitOptimizer(fields, training.optimizer, kOptional);
  VisitDropout(fields, training.dropout);
  fields.Unsigned("seed", training.seed, kOptional);
  VisitDocumentEnds(fields, training);
}

void VisitParallel(FieldVisitor& fields, ParallelSpec& parallel) {
  fields.Integer("tensor_parallel_size", parallel.tensor_parallel_size, kSizeRange);
  fields.Integer("pipeline_parallel_size", parallel.pipeline_parallel_size, kSizeRange);
  fields.Integer("data_parallel_size", parallel.data_parallel_size, kSizeRange);
  fields.Integer("context_parallel_size", parallel.context_parallel_size, kSizeRange);
  fields.Integer("expert_parallel_size", parallel.expert_parallel_size, kSizeRange);
  fields.Integer("expert_tensor_parallel_size", parallel.expert_tensor_parallel_size, kCountRange,
                 kOptional);
  fields.Integer("virtual_pipeline_size", parallel.virtual_pipeline_size, kSizeRange);
  fields.Integer("microbatch_group_size", parallel.microbatch_group_size, kCountRange, kOptional);
  fields.Integer("micro_batch_size", parallel.micro_batch_size, kSizeRange);
  fields.Flag("sequence_parallel", parallel.sequence_parallel);
  fields.Mode("recompute", parallel.recompute);
  fields.Integers("recomputed_layers_per_virtual_stage",
                  parallel.recomputed_layers_per_virtual_stage, kOptional);
  fields.Integer("zero_stage", parallel.zero_stage, {.minimum = 0, .maximum = 3});
  fields.Integer("zero_group_size", parallel.zero_group_size, kCountRange, kOptional);
  fields.Flag("offload_optimizer", parallel.offload_optimizer, kOptional);
  fields.Mode("schedule", parallel.schedule);
  fields.Mode("attention", parallel.attention);
  fields.Mode("context_kind", parallel.context_kind, kOptional);
  fields.Text("rank_order", parallel.rank_order);
  fields.Integers("layers_per_virtual_stage", parallel.layers_per_virtual_stage,
                  Presence::kRequired);
  fields.Integer("vocab_size_multiple", parallel.vocab_size_multiple, kSizeRange);
  fields.Integer("bucket_elements", parallel.bucket_elements, kSizeRange);
  fields.Mode("gradient_reduce_type", parallel.gradient_reduce_type, kOptional);
  fields.Flag("overlap_grad_reduce", parallel.overlap_grad_reduce);
  fields.Flag("overlap_param_gather", parallel.overlap_param_gather, kOptional);
  fields.Flag("overlap_tp_comm", parallel.overlap_tp_comm, kOptional);
  fields.Flag("overlap_pp_comm", parallel.overlap_pp_comm, kOptional);
  fields.Flag("scatter_gather_transfers", parallel.scatter_gather_transfers, kOptional);
}

void VisitStepReport(FieldVisitor& fields, StepReport& report) {
  fields.Number("step_time_s", report.step_time_s, kNotNegative);
  fields.Number("tokens_per_s", report.tokens_per_s, kNotNegative);
  fields.Number("tokens_per_s_per_device", report.tokens_per_s_per_device, kNotNegative);
  fields.Number("model_flops", report.model_flops, kNotNegative);
  fields.Number("hardware_flops", report.hardware_flops, kNotNegative);
  fields.Number("model_tflops_per_device", report.model_tflops_per_device, kNotNegative);
  fields.Number("hardware_tflops_per_device", report.hardware_tflops_per_device, kNotNegative);
  fields.Number("mfu", report.mfu, kNotNegative);
  fields.Number("hfu", report.hfu, kNotNegative);
  fields.Object("memory", [&](FieldVisitor& memory) {
    memory.Integer("peak_bytes", report.peak_bytes, kBytesRange);
    memory.Objects(
        "stages", report.stages.size(), [&](std::size_t size) { report.stages.resize(size); },
        [&](FieldVisitor& stage, std::size_t i) { VisitStageMemory(stage, report.stages[i]); });
  });
  fields.Object("time", [&](FieldVisitor& time) { VisitTime(time, report.time); });
  fields.Object("compute", [&](FieldVisitor& compute) {
    compute.Number("forward_s", report.time.forward_s, kNotNegative);
    compute.Number("backward_s", report.time.backward_s, kNotNegative);
    compute.Number("recompute_s", report.time.recompute_s, kNotNegative);
  });
}

void VisitPlan(FieldVisitor& fields, Plan& plan) {
  fields.Object("model", [&](FieldVisitor& section) { VisitModel(section, plan.model); });
  fields.Object("cluster", [&](FieldVisitor& section) { VisitCluster(section, plan.cluster); });
  fields.Object("training", [&](FieldVisitor& section) { VisitTraining(section, plan.training); });
  fields.Object("parallel", [&](FieldVisitor& section) { VisitParallel(section, plan.parallel); });
  fields.Integer("num_devices", plan.num_devices, kSizeRange);
  fields.Integer("threads_per_rank", plan.threads_per_rank, kCountRange);
  if (fields.Present("prediction", plan.prediction.has_value())) {
    if (!plan.prediction) plan.prediction.emplace();
    fields.Object("prediction",
                  [&](FieldVisitor& section) { VisitStepReport(section, *plan.prediction); });
  }
}

}  // namespace tessera::spec
