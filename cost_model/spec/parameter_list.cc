#include "cost_model/spec/parameter_list.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"
#include "cost_model/spec/layer_form.h"

namespace tessera::spec {
namespace {

// How a parameter is split over the tensor-parallel ranks.
enum class Split {
  kReplicated,  // every rank sees every token
  kTokenwise,   // replicated, but used on each rank's own tokens under sequence parallelism
  kRows,        // dim 0: column-parallel weights (stored [out, in]) and their biases
  kColumns,     // dim 1: row-parallel weights
  kKvHeads,     // dim 0 in whole key/value heads, shared by neighbours when there are too few
  kVocab,       // dim 0, padded
};

class ListBuilder {
 public:
  ListBuilder(const ModelSpec& model, const ParallelSpec& parallel, int max_experts)
      : model_(model), parallel_(parallel), max_experts_(max_experts) {}

  int max_experts() const { return max_experts_; }

  void set_layer(int layer) { layer_ = layer; }
  // What follows belongs to an expert.
  void set_expert(bool is_expert) { is_expert_ = is_expert; }

  ParameterSpec& Add(const std::string& name, std::vector<int64_t> shape, Split split,
                     InitKind init, double standard_deviation) {
    ParameterSpec parameter;
    parameter.name = layer_ < 0 ? name : "layers." + std::to_string(layer_) + "." + name;
    parameter.global_shape = std::move(shape);
    parameter.shard = ShardOf(parameter.global_shape, split);
    parameter.init = init;
    parameter.init_standard_deviation = init == InitKind::kNormal ? standard_deviation : 0;
    parameter.weight_decay = parameter.global_shape.size() >= 2;
    parameter.sequence_parallel_gradient =
        split == Split::kTokenwise && parallel_.sequence_parallel && !is_expert_;
    parameter.is_expert = is_expert_;
    parameter.layer = layer_;
    parameters_.push_back(std::move(parameter));
    return parameters_.back();
  }

  void AddWeight(const std::string& name, std::vector<int64_t> shape, Split split,
                 bool packed = false) {
    Add(name + ".weight", std::move(shape), split, InitKind::kNormal,
        model_.init_standard_deviation)
        .packed_with_previous = packed;
  }

  // Projections back into the residual stream start smaller by sqrt(2 * layers): Radford et al.
  // 2019 (GPT-2), section 2.3.
  void AddResidualProjection(const std::string& name, std::vector<int64_t> shape, Split split) {
    Add(name + ".weight", std::move(shape), split, InitKind::kNormal,
        model_.init_standard_deviation / std::sqrt(2.0 * model_.num_layers));
  }

  void AddBias(const std::string& name, int64_t width, Split split, bool packed = false) {
    Add(name + ".bias", {width}, split, InitKind::kZeros, 0).packed_with_previous = packed;
  }

  void AddNorm(const std::string& name) {
    Add(name + ".weight", {model_.hidden_size}, Split::kTokenwise, InitKind::kOnes, 0);
    if (model_.norm == NormKind::kLayerNorm) AddBias(name, model_.hidden_size, Split::kTokenwise);
  }

  // Shared by all heads: each tensor rank has the gradient of its own heads.
  void AddHeadNorm(const std::string& name) {
    Add(name + ".weight", {model_.head_dim}, Split::kTokenwise, InitKind::kOnes, 0)
        .sequence_parallel_gradient = parallel_.tensor_parallel_size > 1;
  }

  void AddRmsNorm(const std::string& name, int64_t width) {
    Add(name + ".weight", {width}, Split::kTokenwise, InitKind::kOnes, 0);
  }

  std::vector<ParameterSpec> Take() { return std::move(parameters_); }

 private:
  ParameterShard ShardOf(const std::vector<int64_t>& shape, Split split) const {
    const int tp = is_expert_ ? ExpertTensorSize(parallel_) : parallel_.tensor_parallel_size;
    switch (split) {
      case Split::kReplicated:
      case Split::kTokenwise:
        return {};
      case Split::kRows:
        return {.dim = 0, .num_shards = tp, .padded_size = shape[0]};
      case Split::kColumns:
        return {.dim = 1, .num_shards = tp, .padded_size = shape[1]};
      case Split::kKvHeads:
        return {.dim = 0,
                .num_shards = std::min(tp, model_.num_key_value_heads),
                .padded_size = shape[0]};
      case Split::kVocab:
        return {.dim = 0, .num_shards = tp, .padded_size = PaddedVocabSize(model_, parallel_)};
    }
    return {};
  }

  const ModelSpec& model_;
  const ParallelSpec& parallel_;
  const int max_experts_;
  int layer_ = kEmbeddingPart;
  bool is_expert_ = false;
  std::vector<ParameterSpec> parameters_;
};

void AddLatentAttention(const ModelSpec& model, ListBuilder& list) {
  const MlaSpec& mla = *model.mla;
  const int64_t h = model.hidden_size;
  const int64_t heads = model.num_attention_heads;
  const int64_t query_width = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim);
  if (mla.q_lora_rank > 0) {
    list.AddWeight("attention.q_down", {mla.q_lora_rank, h}, Split::kTokenwise);
    list.AddRmsNorm("attention.q_norm", mla.q_lora_rank);
    list.AddWeight("attention.q_up", {query_width, mla.q_lora_rank}, Split::kRows);
  } else {
    list.AddWeight("attention.q", {query_width, h}, Split::kRows);
  }
  // The rotary part of the keys, one for all heads, comes out beside the latent vector.
  list.AddWeight("attention.kv_down", {mla.kv_lora_rank + mla.qk_rope_head_dim, h},
                 Split::kTokenwise);
  list.AddRmsNorm("attention.kv_norm", mla.kv_lora_rank);
  list.AddWeight("attention.kv_up",
                 {heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank}, Split::kRows);
  list.AddResidualProjection("attention.output", {h, heads * mla.v_head_dim}, Split::kColumns);
}

void AddGroupedAttention(const ModelSpec& model, ListBuilder& list) {
  const int64_t h = model.hidden_size;
  const int64_t q_width = model.num_attention_heads * model.head_dim;
  const int64_t kv_width = model.num_key_value_heads * model.head_dim;
  list.AddWeight("attention.q", {q_width, h}, Split::kRows);
  list.AddWeight("attention.k", {kv_width, h}, Split::kKvHeads, /*packed=*/true);
  list.AddWeight("attention.v", {kv_width, h}, Split::kKvHeads, /*packed=*/true);
  if (model.qkv_bias) {
    list.AddBias("attention.q", q_width, Split::kRows);
    list.AddBias("attention.k", kv_width, Split::kKvHeads, /*packed=*/true);
    list.AddBias("attention.v", kv_width, Split::kKvHeads, /*packed=*/true);
  }
  if (model.qk_norm) {
    list.AddHeadNorm("attention.q_norm");
    list.AddHeadNorm("attention.k_norm");
  }
  list.AddResidualProjection("attention.output", {h, q_width}, Split::kColumns);
  if (model.attention_output_bias) list.AddBias("attention.output", h, Split::kTokenwise);
}

// A dense MLP, a shared expert or an expert.
void AddMlp(const ModelSpec& model, const std::string& prefix, int64_t f, bool has_bias,
            ListBuilder& list) {
  const int64_t h = model.hidden_size;
  const bool gated = model.activation == ActivationKind::kSwiGlu;
  if (gated) list.AddWeight(prefix + "gate", {f, h}, Split::kRows);
  list.AddWeight(prefix + "up", {f, h}, Split::kRows, /*packed=*/gated);
  if (has_bias) {
    if (gated) list.AddBias(prefix + "gate", f, Split::kRows);
    list.AddBias(prefix + "up", f, Split::kRows, /*packed=*/gated);
  }
  list.AddResidualProjection(prefix + "down", {h, f}, Split::kColumns);
  if (has_bias) list.AddBias(prefix + "down", h, Split::kTokenwise);
}

// Experts lie in order, each with its own matrices.
void AddExperts(const ModelSpec& model, const ParallelSpec& parallel, int expert_rank,
                ListBuilder& list) {
  const MoeSpec& moe = *model.moe;
  list.AddWeight("mlp.router", {moe.num_experts, model.hidden_size}, Split::kTokenwise);
  const int num_local = moe.num_experts / parallel.expert_parallel_size;
  const int first = expert_rank * num_local;
  list.set_expert(true);
  for (int expert = first; expert < first + std::min(num_local, list.max_experts()); ++expert) {
    AddMlp(model, "mlp.experts." + std::to_string(expert) + ".", moe.expert_ffn_hidden_size,
           model.mlp_bias, list);
  }
  list.set_expert(false);
  if (moe.shared_expert_ffn_hidden_size > 0) {
    AddMlp(model, "mlp.shared_expert.", moe.shared_expert_ffn_hidden_size, /*has_bias=*/false,
           list);
    if (moe.shared_expert_gate) {
      list.AddWeight("mlp.shared_expert.output_gate", {1, model.hidden_size}, Split::kTokenwise);
    }
  }
}

void AddLayer(const ModelSpec& model, const ParallelSpec& parallel, const LayerForm& form,
              int expert_rank, ListBuilder& list) {
  list.AddNorm("attention.norm");
  if (model.mla) {
    AddLatentAttention(model, list);
  } else {
    AddGroupedAttention(model, list);
  }
  list.AddNorm("mlp.norm");
  if (form.has_experts) {
    AddExperts(model, parallel, expert_rank, list);
  } else {
    AddMlp(model, "mlp.", model.ffn_hidden_size, model.mlp_bias, list);
  }
}

// Final norm, output projection and multi-token layers, which share the embedding and the output
// projection: their stage holds both.
void AddHead(const ModelSpec& model, const ParallelSpec& parallel, bool has_embedding,
             int expert_rank, ListBuilder& list) {
  list.AddNorm("final_norm");
  const std::vector<int64_t> shape = {model.vocab_size, model.hidden_size};
  if (!model.tied_embeddings) list.AddWeight("output", shape, Split::kVocab);
  if (HeadReadsEmbedding(model) && !has_embedding) {
    list.Add(kWordEmbedding, shape, Split::kVocab, InitKind::kNormal, model.init_standard_deviation)
        .tied_copy = true;
  }
  for (int i = 0; i < model.num_multi_token_layers; ++i) {
    list.set_layer(model.num_layers + i);
    list.AddNorm("multi_token.embedding_norm");
    list.AddNorm("multi_token.hidden_norm");
    list.AddWeight("multi_token.projection", {model.hidden_size, 2 * model.hidden_size},
                   Split::kRows);
    AddLayer(model, parallel, MultiTokenLayerForm(model), expert_rank, list);
    list.AddNorm("multi_token.final_norm");
  }
}

int64_t SumElements(const std::vector<ParameterSpec>& parameters) {
  int64_t sum = 0;
  for (const ParameterSpec& parameter : parameters) {
    int64_t elements = 1;
    for (const int64_t dim : parameter.global_shape) elements *= dim;
    sum += elements;
  }
  return sum;
}

}  // namespace

bool HeadReadsEmbedding(const ModelSpec& model) {
  return model.tied_embeddings || model.num_multi_token_layers > 0;
}

int64_t PaddedVocabSize(const ModelSpec& model, const ParallelSpec& parallel) {
  return base::RoundUp(model.vocab_size,
                       parallel.vocab_size_multiple * parallel.tensor_parallel_size);
}

bool IsEmbedding(const ParameterSpec& parameter) {
  return parameter.name.rfind("embedding.", 0) == 0;
}

std::vector<ParameterSpec> StageParameters(const ModelSpec& model, const ParallelSpec& parallel,
                                           const VirtualStage& stage, int expert_rank,
                                           int max_experts) {
  ListBuilder list(model, parallel, max_experts);
  if (stage.has_embedding) {
    list.AddWeight("embedding.word", {model.vocab_size, model.hidden_size}, Split::kVocab);
    if (model.position == PositionKind::kLearned) {
      list.AddWeight("embedding.position", {model.max_sequence_length, model.hidden_size},
                     Split::kTokenwise);
    }
  }
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
    list.set_layer(layer);
    AddLayer(model, parallel, LayerFormOf(model, layer), expert_rank, list);
  }
  list.set_layer(kHeadPart);
  if (stage.has_head) AddHead(model, parallel, stage.has_embedding, expert_rank, list);
  return list.Take();
}

std::vector<ParameterSpec> ModelParameters(const ModelSpec& model) {
  return StageParameters(
      model, ParallelSpec{},
      VirtualStage{.num_layers = model.num_layers, .has_embedding = true, .has_head = true});
}

int64_t NumParameters(const ModelSpec& model) {
  // Layers of one form are alike: one layer's worth, times their number.
  const PerForm<int> counts = CountForms(model, {.num_layers = model.num_layers});
  int64_t sum = SumElements(StageParameters(model, {}, {.has_embedding = true, .has_head = true}));
  for (size_t i = 0; i < kNumLayerForms; ++i) {
    const std::optional<int> layer = FirstLayerOf(model, FormAt(i));
    if (!layer) continue;
    sum += counts[i] *
           SumElements(StageParameters(model, {}, {.first_layer = *layer, .num_layers = 1}));
  }
  return sum;
}

int64_t NumActiveParameters(const ModelSpec& model) {
  if (!model.moe) return NumParameters(model);
  ModelSpec active = model;
  active.moe->num_experts = model.moe->experts_per_token;
  // The router keeps a row for each expert.
  const PerForm<int> counts = CountForms(model, {.num_layers = model.num_layers});
  int64_t num_routers = 0;
  for (size_t i = 0; i < kNumLayerForms; ++i) {
    if (FormAt(i).has_experts) num_routers += counts[i];
  }
  if (MultiTokenLayerForm(model).has_experts) num_routers += model.num_multi_token_layers;
  return NumParameters(active) +
         num_routers * (model.moe->num_experts - model.moe->experts_per_token) * model.hidden_size;
}

LocalSlice SliceOf(const ParameterSpec& parameter, int tensor_parallel_size, int tensor_rank) {
  LocalSlice slice{.shape = parameter.global_shape};
  const ParameterShard& shard = parameter.shard;
  const int ranks_per_shard = std::max(1, tensor_parallel_size / shard.num_shards);
  slice.first_replica = tensor_rank % ranks_per_shard == 0;
  if (shard.dim >= 0) {
    TESSERA_CHECK(shard.padded_size % shard.num_shards == 0, parameter.name, " of ",
                  shard.padded_size, " over ", shard.num_shards);
    const int64_t local = shard.padded_size / shard.num_shards;
    const int64_t global = parameter.global_shape[shard.dim];
    slice.dim = shard.dim;
    slice.begin = std::min(global, local * (tensor_rank / ranks_per_shard));
    slice.size = std::min(local, global - slice.begin);
    slice.shape[shard.dim] = local;
  }
  slice.num_elements = 1;
  for (const int64_t dim : slice.shape) slice.num_elements *= dim;
  return slice;
}

int TensorSizeOf(const ParameterSpec& parameter, const ParallelSpec& parallel) {
  return parameter.is_expert ? ExpertTensorSize(parallel) : parallel.tensor_parallel_size;
}

}  // namespace tessera::spec
