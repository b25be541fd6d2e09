#include "tests/testing/expert_plans.h"

#include "cost_model/base/check.h"

namespace tessera::testing {
namespace {

spec::ModelSpec SmallMixtral() {
  return {
      .name = "mixtral",
      .norm = spec::NormKind::kRmsNorm,
      .position = spec::PositionKind::kRope,
      .activation = spec::ActivationKind::kSwiGlu,
      .num_layers = 4,
      .hidden_size = 32,
      .num_attention_heads = 4,
      .num_key_value_heads = 2,
      .head_dim = 8,
      .ffn_hidden_size = 24,
      .vocab_size = 64,
      .max_sequence_length = 16,
      .moe = spec::MoeSpec{.num_experts = 4, .experts_per_token = 2, .expert_ffn_hidden_size = 24}};
}

// Experts wide enough for their gradients to be what takes most.
spec::ModelSpec SmallSwitch() {
  spec::ModelSpec model = SmallMixtral();
  model.name = "switch";
  model.activation = spec::ActivationKind::kGelu;
  model.ffn_hidden_size = 40;
  model.moe = spec::MoeSpec{.num_experts = 8,
                            .experts_per_token = 1,
                            .expert_ffn_hidden_size = 104,
                            .num_leading_dense_layers = 1,
                            .normalized_router_weights = false,
                            .auxiliary_loss_coefficient = 0.01,
                            .z_loss_coefficient = 0.001};
  return model;
}

// An expert that every token visits, gated.
spec::ModelSpec SmallQwenMoe() {
  spec::ModelSpec model = SmallMixtral();
  model.name = "qwenmoe";
  model.qkv_bias = true;
  model.moe->normalized_router_weights = false;
  model.moe->shared_expert_ffn_hidden_size = 56;
  model.moe->shared_expert_gate = true;
  return model;
}

struct ExpertMesh {
  int tp, pp, dp, vpp, ep, etp;
  int cp = 1;
};
constexpr ExpertMesh kExpertMeshes[] = {
    {1, 1, 1, 1, 1, 0}, {1, 1, 2, 1, 1, 0}, {1, 1, 2, 1, 2, 0},    {1, 1, 4, 1, 4, 0},
    {1, 1, 4, 1, 2, 0}, {2, 1, 1, 1, 1, 0}, {2, 1, 1, 1, 2, 1},    {2, 1, 1, 1, 1, 1},
    {2, 1, 2, 1, 2, 0}, {1, 1, 2, 1, 1, 2}, {1, 2, 2, 1, 2, 0},    {2, 2, 2, 1, 4, 1},
    {1, 2, 2, 2, 2, 0}, {2, 1, 2, 1, 4, 1}, {1, 1, 1, 1, 2, 0, 2}, {2, 1, 1, 1, 4, 1, 2}};

}  // namespace

std::vector<NamedPlan> ExpertPlans(spec::Precision precision) {
  std::vector<NamedPlan> plans;
  int count = 0;
  for (spec::ModelSpec model : {SmallMixtral(), SmallSwitch(), SmallQwenMoe()}) {
    for (const ExpertMesh& mesh : kExpertMeshes) {
      // The further choices take turns.
      ++count;
      constexpr spec::Recompute kRecompute[] = {spec::Recompute::kNone, spec::Recompute::kSelective,
                                                spec::Recompute::kFull};
      const bool is_filled = count % 4 == 3;
      model.moe->capacity_factor = is_filled ? 1.3 : 0;
      model.moe->forced_uniform_routing = !is_filled;
      spec::ParallelSpec parallel{.tensor_parallel_size = mesh.tp,
                                  .pipeline_parallel_size = mesh.pp,
                                  .data_parallel_size = mesh.dp,
                                  .context_parallel_size = mesh.cp,
                                  .expert_parallel_size = mesh.ep,
                                  .expert_tensor_parallel_size = mesh.etp,
                                  .virtual_pipeline_size = mesh.vpp,
                                  .micro_batch_size = 1 + count % 2,
                                  .sequence_parallel = mesh.tp > 1,
                                  .recompute = kRecompute[count % 3],
                                  .zero_stage = count / 2 % 2,
                                  .attention = count % 5 < 2 && mesh.cp == 1
                                                   ? spec::AttentionKind::kUnfused
                                                   : spec::AttentionKind::kFlash,
                                  .vocab_size_multiple = 8,
                                  .bucket_elements = 5000,
                                  .overlap_grad_reduce = false};
      if (mesh.vpp > 1) parallel.schedule = spec::ScheduleKind::kInterleaved;
      spec::Plan plan{.model = model, .parallel = parallel, .threads_per_rank = 1};
      plan.training = {
          .global_batch_size = 8, .sequence_length = 16, .steps = 4, .precision = precision};
      plan.training.dropout.hidden = count % 4 >= 2 ? 0.1 : 0;
      plan.cluster.shared_compute_units = 1;
      plan.num_devices = spec::WorldSize(parallel);
      plans.push_back(
          {base::Concat(model.name, " tp", mesh.tp, " pp", mesh.pp, " dp", mesh.dp, " cp", mesh.cp,
                        " vpp", mesh.vpp, " ep", mesh.ep, " etp", mesh.etp, " #", count),
           plan});
    }
  }
  return plans;
}

}  // namespace tessera::testing
