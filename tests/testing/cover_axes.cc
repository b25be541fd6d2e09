#include "tests/testing/cover_axes.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace tessera::testing {
namespace {

constexpr int64_t kGlobalBatchSize = 16;
constexpr int kExperts = 4;
// Far from the nearly linear model of small weights: the gradients of all parameters are of one
// size then, about 0.01, and the norm above 1.
constexpr double kInitStandardDeviation = 0.2;
// A tenth of the gradients' size. AdamW divides a gradient by its own size: where it is zero but
// for rounding, a smaller epsilon would make a whole update of the rounding.
constexpr double kAdamEpsilon = 1e-3;

// Values that are sizes.
template <typename Choose>
CoverAxis SizeAxis(const char* name, std::initializer_list<int> sizes, const Choose& choose) {
  CoverAxis axis{name, {}};
  for (const int size : sizes) {
    axis.values.push_back({std::to_string(size), [=](CoverDraft& draft) { choose(draft, size); }});
  }
  return axis;
}

// "no" and "yes".
template <typename Choose>
CoverAxis SwitchAxis(const char* name, const Choose& choose) {
  return {name, {{"no", [](CoverDraft&) {}}, {"yes", choose}}};
}

void ChooseGpt(CoverDraft& draft) {
  spec::ModelSpec& model = draft.plan.model;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  model.ffn_hidden_size = 80;
}

void ChooseLlama(CoverDraft& draft) {
  spec::ModelSpec& model = draft.plan.model;
  model.norm = spec::NormKind::kRmsNorm;
  model.position = spec::PositionKind::kRope;
  model.activation = spec::ActivationKind::kSwiGlu;
  model.ffn_hidden_size = 56;
  model.head_dim = 6;  // wider in all than the hidden size
}

// Experts of one kind; with losses of the router's own; with room for all that may choose one; and
// beside an expert that all tokens visit, after a layer without.
std::vector<CoverValue> ExpertModels() {
  const auto plain = [](CoverDraft& draft) {
    draft.plan.model.moe = spec::MoeSpec{
        .num_experts = kExperts, .experts_per_token = 2, .expert_ffn_hidden_size = 24};
  };
  const auto balanced = [plain](CoverDraft& draft) {
    plain(draft);
    draft.plan.model.moe->auxiliary_loss_coefficient = 0.05;
    draft.plan.model.moe->z_loss_coefficient = 0.01;
  };
  // What is dropped depends on the layout: nothing is.
  const auto filled = [plain](CoverDraft& draft) {
    plain(draft);
    draft.plan.model.moe->capacity_factor = kExperts / 2;
  };
  const auto shared = [plain](CoverDraft& draft) {
    plain(draft);
    draft.plan.model.moe->shared_expert_ffn_hidden_size = 16;
    draft.plan.model.moe->shared_expert_gate = true;
    draft.plan.model.moe->num_leading_dense_layers = 1;
  };
  return {{"none", [](CoverDraft&) {}},
          {"alike", plain},
          {"balanced", balanced},
          {"filled-up", filled},
          {"and-shared", shared}};
}

std::vector<CoverValue> ContextValues() {
  std::vector<CoverValue> values = {{"1", [](CoverDraft&) {}}};
  for (const auto kind :
       {spec::ContextKind::kRing, spec::ContextKind::kAllGather, spec::ContextKind::kAllToAll}) {
    for (const int size : {2, 4}) {
      values.push_back(
          {std::to_string(size) + "-" + std::string(ToString(kind)), [=](CoverDraft& draft) {
             draft.plan.parallel.context_parallel_size = size;
             draft.plan.parallel.context_kind = kind;
           }});
    }
  }
  return values;
}

std::vector<CoverValue> ScheduleValues() {
  std::vector<CoverValue> values;
  for (const auto kind : {spec::ScheduleKind::kOneForwardOneBackward, spec::ScheduleKind::kGPipe,
                          spec::ScheduleKind::kInterleaved, spec::ScheduleKind::kZeroBubbleH1}) {
    values.push_back({std::string(ToString(kind)), [=](CoverDraft& draft) {
                        draft.plan.parallel.schedule = kind;
                        const bool has_chunks = kind == spec::ScheduleKind::kInterleaved;
                        draft.plan.parallel.virtual_pipeline_size = has_chunks ? 2 : 1;
                      }});
  }
  // Micro-batches that take turns at a chunk: more than there are stages.
  values.push_back({"interleaved-in-fours", [](CoverDraft& draft) {
                      draft.plan.parallel.schedule = spec::ScheduleKind::kInterleaved;
                      draft.plan.parallel.virtual_pipeline_size = 2;
                      draft.plan.parallel.microbatch_group_size = 4;
                    }});
  return values;
}

std::vector<CoverValue> RecomputeValues() {
  std::vector<CoverValue> values;
  for (const auto kind :
       {spec::Recompute::kNone, spec::Recompute::kSelective, spec::Recompute::kFull}) {
    values.push_back({std::string(ToString(kind)),
                      [=](CoverDraft& draft) { draft.plan.parallel.recompute = kind; }});
  }
  values.push_back({"some-layers", [](CoverDraft& draft) {
                      draft.plan.parallel.recompute = spec::Recompute::kFull;
                      draft.recomputes_some_layers = true;
                    }});
  return values;
}

// Token 0 ends documents: in one sample of four.
std::vector<CoverValue> DocumentValues() {
  const auto resets = [](bool positions, bool attention) {
    return [=](CoverDraft& draft) {
      draft.plan.training.eod_token = 0;
      draft.plan.training.reset_position_ids = positions;
      draft.plan.training.reset_attention_mask = attention;
    };
  };
  return {{"whole", [](CoverDraft&) {}},
          {"positions", resets(true, false)},
          {"attention", resets(false, true)},
          {"apart", [=](CoverDraft& draft) {
             resets(true, true)(draft);
             draft.plan.training.eod_mask_loss = true;
           }}};
}

std::vector<CoverAxis> ModelAxes() {
  return {
      {"family", {{"gpt", ChooseGpt}, {"llama", ChooseLlama}}},
      SizeAxis("kv-heads", {8, 4, 1},
               [](CoverDraft& draft, int n) { draft.plan.model.num_key_value_heads = n; }),
      SwitchAxis("tied", [](CoverDraft& draft) { draft.plan.model.tied_embeddings = true; }),
      SizeAxis("vocabulary", {64, 53},
               [](CoverDraft& draft, int n) { draft.plan.model.vocab_size = n; }),
      {"experts", ExpertModels()},
      SwitchAxis("clipping",
                 [](CoverDraft& draft) { draft.plan.training.optimizer.clip_grad = 1; }),
      SwitchAxis("dropout",
                 [](CoverDraft& draft) {
                   draft.plan.training.dropout = {
                       .hidden = 0.2, .attention = 0.3, .embedding = 0.1};
                 }),
      {"documents", DocumentValues()},
  };
}

std::vector<CoverAxis> LayoutAxes() {
  using spec::ParallelSpec;
  const auto size_axis = [](const char* name, std::initializer_list<int> sizes,
                            int ParallelSpec::*field) {
    return SizeAxis(name, sizes,
                    [=](CoverDraft& draft, int size) { draft.plan.parallel.*field = size; });
  };
  const auto switch_axis = [](const char* name, bool ParallelSpec::*field) {
    return SwitchAxis(name, [=](CoverDraft& draft) { draft.plan.parallel.*field = true; });
  };
  return {
      size_axis("tensor", {1, 2, 4}, &ParallelSpec::tensor_parallel_size),
      size_axis("pipeline", {1, 2, 4}, &ParallelSpec::pipeline_parallel_size),
      size_axis("data", {1, 2, 4}, &ParallelSpec::data_parallel_size),
      {"context", ContextValues()},
      size_axis("expert", {1, 2, 4}, &ParallelSpec::expert_parallel_size),
      SwitchAxis("whole-experts",
                 [](CoverDraft& draft) { draft.plan.parallel.expert_tensor_parallel_size = 1; }),
      switch_axis("sequence", &ParallelSpec::sequence_parallel),
      size_axis("zero", {0, 1, 2, 3}, &ParallelSpec::zero_stage),
      SwitchAxis("hybrid", [](CoverDraft& draft) { draft.is_hybrid = true; }),
      switch_axis("offload", &ParallelSpec::offload_optimizer),
      SizeAxis("microbatches", {1, 2, 4},
               [](CoverDraft& draft, int n) { draft.num_microbatches = n; }),
      {"recompute", RecomputeValues()},
      {"schedule", ScheduleValues()},
      SwitchAxis("uneven", [](CoverDraft& draft) { draft.is_uneven = true; }),
      SwitchAxis(
          "flash",
          [](CoverDraft& draft) { draft.plan.parallel.attention = spec::AttentionKind::kFlash; }),
      {"order",
       {{"tp-first", [](CoverDraft&) {}},
        {"tp-last", [](CoverDraft& draft) { draft.plan.parallel.rank_order = "dp-cp-ep-pp-tp"; }}}},
      switch_axis("overlap-grad", &ParallelSpec::overlap_grad_reduce),
      switch_axis("overlap-param", &ParallelSpec::overlap_param_gather),
      switch_axis("overlap-tp", &ParallelSpec::overlap_tp_comm),
      switch_axis("overlap-pp", &ParallelSpec::overlap_pp_comm),
      switch_axis("scatter-gather", &ParallelSpec::scatter_gather_transfers),
  };
}

CoverDraft FirstDraft() {
  CoverDraft draft;
  draft.plan.model = {.name = "cover",
                      .hidden_size = 32,
                      .num_attention_heads = 8,
                      .head_dim = 4,
                      .max_sequence_length = 16,
                      .init_standard_deviation = kInitStandardDeviation};
  draft.plan.training = {.global_batch_size = kGlobalBatchSize,
                         .sequence_length = 16,
                         .steps = 5,
                         .precision = spec::Precision::kFp32,
                         .seed = 7,
                         .optimizer = {.lr = 2e-3, .adam_eps = kAdamEpsilon, .clip_grad = 0}};
  draft.plan.parallel = {.zero_stage = 0,
                         .attention = spec::AttentionKind::kUnfused,
                         .vocab_size_multiple = 8,
                         .bucket_elements = 5000,
                         .overlap_grad_reduce = false};
  draft.plan.threads_per_rank = 1;
  return draft;
}

// One layer moves from the first stage to the last: a stage may be left with the embedding alone.
std::vector<int> UnevenLayers(int num_layers, int num_stages) {
  std::vector<int> layers(static_cast<size_t>(num_stages), num_layers / num_stages);
  --layers.front();
  ++layers.back();
  return layers;
}

// What follows from all choices together.
void Finish(CoverDraft& draft) {
  spec::Plan& plan = draft.plan;
  spec::ParallelSpec& parallel = plan.parallel;
  const int num_stages = parallel.pipeline_parallel_size * parallel.virtual_pipeline_size;
  plan.model.num_layers = std::max(4, num_stages);
  if (plan.model.moe) {
    // What the engine's experts have not: biases, and a shared expert's gate without a gated MLP.
    plan.model.mlp_bias = false;
    if (plan.model.activation != spec::ActivationKind::kSwiGlu) {
      plan.model.moe->shared_expert_gate = false;
    }
  }
  plan.num_devices = spec::WorldSize(parallel);
  parallel.micro_batch_size =
      kGlobalBatchSize / (parallel.data_parallel_size * draft.num_microbatches);
  if (draft.is_uneven) {
    parallel.layers_per_virtual_stage = UnevenLayers(plan.model.num_layers, num_stages);
  }
  if (draft.recomputes_some_layers) {
    for (int stage = 0; stage < num_stages; ++stage) {
      const int layers = draft.is_uneven ? parallel.layers_per_virtual_stage[stage]
                                         : plan.model.num_layers / num_stages;
      parallel.recomputed_layers_per_virtual_stage.push_back((layers + stage % 2) / 2);
    }
  }
  if (draft.is_hybrid) parallel.zero_group_size = spec::GradientGroupSize(parallel) / 2;
}

}  // namespace

const std::vector<CoverAxis>& CoverAxes() {
  static const std::vector<CoverAxis> axes = [] {
    std::vector<CoverAxis> all = ModelAxes();
    for (CoverAxis& axis : LayoutAxes()) all.push_back(std::move(axis));
    return all;
  }();
  return axes;
}

CoverDraft DraftOf(const CoverRow& choices) {
  CoverDraft draft = FirstDraft();
  for (size_t axis = 0; axis < choices.size(); ++axis) {
    CoverAxes()[axis].values[static_cast<size_t>(choices[axis])].choose(draft);
  }
  Finish(draft);
  return draft;
}

}  // namespace tessera::testing
