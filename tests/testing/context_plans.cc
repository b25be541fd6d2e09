#include "tests/testing/context_plans.h"

#include "cost_model/base/check.h"

namespace tessera::testing {
namespace {

// Learned positions, biases, tied embeddings; heads of their own.
spec::ModelSpec LearnedPositions() {
  return {.name = "gpt",
          .num_layers = 2,
          .hidden_size = 32,
          .num_attention_heads = 8,
          .num_key_value_heads = 8,
          .head_dim = 4,
          .ffn_hidden_size = 48,
          .vocab_size = 53,
          .max_sequence_length = 16,
          .qkv_bias = true,
          .attention_output_bias = true,
          .mlp_bias = true,
          .tied_embeddings = true};
}

// Rotary positions; two heads share keys and values, and are wider in all than the hidden state.
spec::ModelSpec RotaryPositions() {
  return {.name = "llama",
          .norm = spec::NormKind::kRmsNorm,
          .position = spec::PositionKind::kRope,
          .activation = spec::ActivationKind::kSwiGlu,
          .num_layers = 2,
          .hidden_size = 40,
          .num_attention_heads = 8,
          .num_key_value_heads = 4,
          .head_dim = 6,
          .ffn_hidden_size = 24,
          .vocab_size = 64,
          .max_sequence_length = 16};
}

struct ContextMesh {
  int cp, tp, pp, dp;
};
constexpr ContextMesh kContextMeshes[] = {{2, 1, 1, 1}, {4, 1, 1, 1}, {2, 2, 1, 1},
                                          {2, 1, 2, 1}, {2, 1, 1, 2}, {2, 2, 2, 1}};

}  // namespace

std::vector<NamedPlan> ContextPlans(spec::Precision precision) {
  std::vector<NamedPlan> plans;
  int count = 0;
  for (const ContextMesh& mesh : kContextMeshes) {
    for (const auto kind :
         {spec::ContextKind::kRing, spec::ContextKind::kAllGather, spec::ContextKind::kAllToAll}) {
      for (const auto recompute :
           {spec::Recompute::kNone, spec::Recompute::kSelective, spec::Recompute::kFull}) {
        ++count;
        const bool is_flash = kind == spec::ContextKind::kRing || count % 4 < 2;
        const spec::ParallelSpec parallel{
            .tensor_parallel_size = mesh.tp,
            .pipeline_parallel_size = mesh.pp,
            .data_parallel_size = mesh.dp,
            .context_parallel_size = mesh.cp,
            .micro_batch_size = 1 + count / 2 % 2,
            .sequence_parallel = mesh.tp > 1 && count % 3 != 0,
            .recompute = recompute,
            .zero_stage = count % 2,
            .attention = is_flash ? spec::AttentionKind::kFlash : spec::AttentionKind::kUnfused,
            .context_kind = kind,
            .vocab_size_multiple = 8,
            .bucket_elements = 5000,
            .overlap_grad_reduce = false};
        spec::Plan plan{.model = count % 2 == 0 ? LearnedPositions() : RotaryPositions(),
                        .parallel = parallel,
                        .threads_per_rank = 1};
        plan.training = {
            .global_batch_size = 4, .sequence_length = 16, .steps = 3, .precision = precision};
        plan.cluster.shared_compute_units = 1;
        plan.num_devices = spec::WorldSize(parallel);
        plans.push_back({base::Concat(plan.model.name, " cp", mesh.cp, ' ', ToString(kind), " tp",
                                      mesh.tp, " pp", mesh.pp, " dp", mesh.dp, " recompute ",
                                      ToString(recompute), " #", count),
                         plan});
      }
    }
  }
  return plans;
}

}  // namespace tessera::testing
