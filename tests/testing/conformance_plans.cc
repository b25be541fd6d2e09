#include "tests/testing/conformance_plans.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/spec/stage_partition.h"
#include "tests/testing/layout_cover.h"

namespace tessera::testing {
namespace {

spec::ModelSpec SmallGpt() {
  return {.name = "gpt",
          .num_layers = 4,
          .hidden_size = 32,
          .num_attention_heads = 4,
          .num_key_value_heads = 4,
          .head_dim = 8,
          .ffn_hidden_size = 128,
          .vocab_size = 53,
          .max_sequence_length = 16,
          .qkv_bias = true,
          .attention_output_bias = true,
          .mlp_bias = true,
          .tied_embeddings = true};
}

spec::ModelSpec SmallLlama() {
  return {.name = "llama",
          .norm = spec::NormKind::kRmsNorm,
          .position = spec::PositionKind::kRope,
          .activation = spec::ActivationKind::kSwiGlu,
          .num_layers = 4,
          .hidden_size = 48,
          .num_attention_heads = 8,
          .num_key_value_heads = 2,
          .head_dim = 6,
          .ffn_hidden_size = 80,
          .vocab_size = 64,
          .max_sequence_length = 16};
}

spec::ModelSpec SmallQwen() {
  spec::ModelSpec model = SmallLlama();
  model.name = "qwen";
  model.num_key_value_heads = 4;
  model.head_dim = 4;
  model.qkv_bias = true;
  return model;
}

struct ConformanceMesh {
  int tp, pp, dp, vpp;
};
constexpr ConformanceMesh kConformanceMeshes[] = {
    {1, 1, 1, 1}, {2, 1, 1, 1}, {4, 1, 1, 1}, {1, 2, 1, 1}, {1, 4, 1, 1},
    {1, 1, 4, 1}, {2, 2, 1, 1}, {2, 1, 2, 1}, {1, 2, 2, 1}, {2, 2, 2, 1},
    {1, 2, 1, 2}, {2, 2, 1, 2}, {4, 2, 1, 1}, {1, 4, 1, 2}};

// How passes and transfers follow each other: choices that take turns.
void ChooseSchedule(const ConformanceMesh& mesh, int count, spec::ParallelSpec& parallel) {
  if (mesh.vpp > 1) parallel.schedule = spec::ScheduleKind::kInterleaved;
  if (mesh.vpp == 1 && count % 4 == 0) parallel.schedule = spec::ScheduleKind::kGPipe;
  if (mesh.pp > 1 && mesh.vpp == 1 && count % 4 == 2) {
    parallel.schedule = spec::ScheduleKind::kZeroBubbleH1;
  }
  parallel.overlap_tp_comm = mesh.tp > 1 && count % 7 % 2 == 1;
  parallel.overlap_pp_comm = mesh.pp > 1 && count % 5 % 2 == 1;
  parallel.scatter_gather_transfers = mesh.pp > 1 && count % 3 == 0;
}

// Layers of the stages, how many of them are recomputed, and groups of micro-batches.
void ChooseStages(const ConformanceMesh& mesh, int count, spec::Plan& plan) {
  spec::ParallelSpec& parallel = plan.parallel;
  const bool is_full = parallel.recompute == spec::Recompute::kFull;
  // As many layers as the virtual stages need; a single round of micro-batches now and then.
  plan.model.num_layers = std::max(plan.model.num_layers, mesh.pp * mesh.vpp);
  const bool is_one_round = mesh.vpp > 1 && is_full;
  plan.training.global_batch_size =
      is_one_round ? mesh.dp * mesh.pp * parallel.micro_batch_size : 8;
  if (mesh.pp == 2 && mesh.vpp == 1 && count % 3 == 1) {
    parallel.layers_per_virtual_stage = {1, 3};
  }
  if (mesh.pp == 2 && mesh.vpp > 1 && !is_one_round) {
    // Eight micro-batches: 3 + 3 + 2.
    if (parallel.micro_batch_size == 1) parallel.microbatch_group_size = 3;
    // Embedding with a layer, nothing, layers, the head alone.
    if (count % 3 == 1) parallel.layers_per_virtual_stage = {1, 0, 3, 0};
  }
  if (!is_full || count % 2 == 1) return;
  for (const spec::VirtualStage& stage : PartitionStages(plan.model, parallel)) {
    parallel.recomputed_layers_per_virtual_stage.push_back(std::min(1, stage.num_layers));
  }
}

}  // namespace

std::vector<NamedPlan> ConformancePlans(spec::Precision precision) {
  std::vector<NamedPlan> plans;
  int count = 0;
  for (const spec::ModelSpec& model : {SmallGpt(), SmallLlama(), SmallQwen()}) {
    for (const ConformanceMesh& mesh : kConformanceMeshes) {
      for (const auto recompute :
           {spec::Recompute::kNone, spec::Recompute::kSelective, spec::Recompute::kFull}) {
        // The further choices take turns, so that each meets the others.
        ++count;
        spec::ParallelSpec parallel{.tensor_parallel_size = mesh.tp,
                                    .pipeline_parallel_size = mesh.pp,
                                    .data_parallel_size = mesh.dp,
                                    .virtual_pipeline_size = mesh.vpp,
                                    .micro_batch_size = 1 + count % 2,
                                    .sequence_parallel = mesh.tp > 1 && count % 3 != 0,
                                    .recompute = recompute,
                                    .zero_stage = count / 2 % 4,
                                    .attention = count % 5 < 2 ? spec::AttentionKind::kUnfused
                                                               : spec::AttentionKind::kFlash,
                                    .vocab_size_multiple = 8,
                                    .bucket_elements = 5000,
                                    .overlap_grad_reduce = false};
        ChooseSchedule(mesh, count, parallel);
        spec::Plan plan{.model = model, .parallel = parallel, .threads_per_rank = 1};
        plan.training = {.sequence_length = 16, .steps = 4, .precision = precision};
        plan.training.dropout = {.hidden = count % 7 < 4 ? 0.1 : 0,
                                 .attention = count % 3 == 1 ? 0.2 : 0,
                                 .embedding = count % 4 == 3 ? 0.1 : 0};
        ChooseStages(mesh, count, plan);
        plan.cluster.shared_compute_units = 1;
        plan.num_devices = spec::WorldSize(parallel);
        plans.push_back({base::Concat(model.name, " tp", mesh.tp, " pp", mesh.pp, " dp", mesh.dp,
                                      " vpp", mesh.vpp, " #", count),
                         plan});
      }
    }
  }
  return plans;
}

std::vector<spec::ModelSpec> GptAndLlama() {
  std::vector<spec::ModelSpec> models = {SmallGpt(), SmallLlama()};
  for (spec::ModelSpec& model : models) model.init_standard_deviation = 0.2;
  return models;
}

std::vector<NamedPlan> CoverPlans() {
  std::vector<NamedPlan> plans;
  for (const CoverTraining& training : CoverOfLayouts().trainings) {
    const spec::ParallelSpec& parallel = training.plan.parallel;
    plans.push_back(
        {base::Concat("cover", plans.size(), " tp", parallel.tensor_parallel_size, " pp",
                      parallel.pipeline_parallel_size, " dp", parallel.data_parallel_size, " cp",
                      parallel.context_parallel_size, " ep", parallel.expert_parallel_size),
         training.plan, training.name});
    plans.back().plan.cluster.shared_compute_units = 1;
    // As the prediction has it: every expert takes as many rows.
    if (spec::ModelSpec& model = plans.back().plan.model; model.moe) {
      model.moe->forced_uniform_routing = true;
    }
  }
  return plans;
}

}  // namespace tessera::testing
