#include "cost_model/spec/parameter_list.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"

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
  ListBuilder(const ModelSpec& model, const ParallelSpec& parallel)
      : model_(model), parallel_(parallel) {}

  void set_layer(int layer) { layer_ = layer; }

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
        split == Split::kTokenwise && parallel_.sequence_parallel;
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

  std::vector<ParameterSpec> Take() { return std::move(parameters_); }

 private:
  ParameterShard ShardOf(const std::vector<int64_t>& shape, Split split) const {
    const int tp = parallel_.tensor_parallel_size;
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
  int layer_ = -1;
  std::vector<ParameterSpec> parameters_;
};

void AddAttention(const ModelSpec& model, ListBuilder& list) {
  const int64_t h = model.hidden_size;
  const int64_t q_width = model.num_attention_heads * model.head_dim;
  const int64_t kv_width = model.num_key_value_heads * model.head_dim;
  list.AddNorm("attention.norm");
  list.AddWeight("attention.q", {q_width, h}, Split::kRows);
  list.AddWeight("attention.k", {kv_width, h}, Split::kKvHeads, /*packed=*/true);
  list.AddWeight("attention.v", {kv_width, h}, Split::kKvHeads, /*packed=*/true);
  if (model.qkv_bias) {
    list.AddBias("attention.q", q_width, Split::kRows);
    list.AddBias("attention.k", kv_width, Split::kKvHeads, /*packed=*/true);
    list.AddBias("attention.v", kv_width, Split::kKvHeads, /*packed=*/true);
  }
  list.AddResidualProjection("attention.output", {h, q_width}, Split::kColumns);
  if (model.attention_output_bias) list.AddBias("attention.output", h, Split::kTokenwise);
}

void AddDenseMlp(const ModelSpec& model, ListBuilder& list) {
  const int64_t h = model.hidden_size;
  const int64_t f = model.ffn_hidden_size;
  const bool gated = model.activation == ActivationKind::kSwiGlu;
  if (gated) list.AddWeight("mlp.gate", {f, h}, Split::kRows);
  list.AddWeight("mlp.up", {f, h}, Split::kRows, /*packed=*/gated);
  if (model.mlp_bias) {
    if (gated) list.AddBias("mlp.gate", f, Split::kRows);
    list.AddBias("mlp.up", f, Split::kRows, /*packed=*/gated);
  }
  list.AddResidualProjection("mlp.down", {h, f}, Split::kColumns);
  if (model.mlp_bias) list.AddBias("mlp.down", h, Split::kTokenwise);
}

// Experts lie in order, each with its own matrices.
void AddExperts(const ModelSpec& model, ListBuilder& list) {
  const int64_t h = model.hidden_size;
  const int64_t f = model.moe->expert_ffn_hidden_size;
  const bool gated = model.activation == ActivationKind::kSwiGlu;
  list.AddWeight("mlp.router", {model.moe->num_experts, h}, Split::kTokenwise);
  for (int expert = 0; expert < model.moe->num_experts; ++expert) {
    const std::string prefix = "mlp.experts." + std::to_string(expert) + ".";
    if (gated) list.AddWeight(prefix + "gate", {f, h}, Split::kRows);
    list.AddWeight(prefix + "up", {f, h}, Split::kRows, /*packed=*/gated);
    list.AddResidualProjection(prefix + "down", {h, f}, Split::kColumns);
  }
}

}  // namespace

int64_t PaddedVocabSize(const ModelSpec& model, const ParallelSpec& parallel) {
  return base::RoundUp(model.vocab_size,
                       parallel.vocab_size_multiple * parallel.tensor_parallel_size);
}

std::vector<ParameterSpec> StageParameters(const ModelSpec& model, const ParallelSpec& parallel,
                                           const VirtualStage& stage) {
  ListBuilder list(model, parallel);
  if (stage.has_embedding) {
    list.AddWeight("embedding.word", {model.vocab_size, model.hidden_size}, Split::kVocab);
    if (model.position == PositionKind::kLearned) {
      list.AddWeight("embedding.position", {model.max_sequence_length, model.hidden_size},
                     Split::kTokenwise);
    }
  }
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
    list.set_layer(layer);
    AddAttention(model, list);
    list.AddNorm("mlp.norm");
    if (model.moe) {
      AddExperts(model, list);
    } else {
      AddDenseMlp(model, list);
    }
  }
  list.set_layer(-1);
  if (stage.has_head) {
    list.AddNorm("final_norm");
    const std::vector<int64_t> shape = {model.vocab_size, model.hidden_size};
    if (!model.tied_embeddings) {
      list.AddWeight("output", shape, Split::kVocab);
    } else if (!stage.has_embedding) {
      list.Add("embedding.word.weight", shape, Split::kVocab, InitKind::kNormal,
               model.init_standard_deviation)
          .tied_copy = true;
    }
  }
  return list.Take();
}

std::vector<ParameterSpec> ModelParameters(const ModelSpec& model) {
  return StageParameters(
      model, ParallelSpec{},
      VirtualStage{.num_layers = model.num_layers, .has_embedding = true, .has_head = true});
}

int64_t NumParameters(const ModelSpec& model) {
  // All layers are alike: one layer's worth, times their number.
  ModelSpec one_layer = model;
  one_layer.num_layers = 1;
  int64_t in_layer = 0;
  int64_t outside = 0;
  for (const ParameterSpec& parameter : ModelParameters(one_layer)) {
    int64_t elements = 1;
    for (const int64_t dim : parameter.global_shape) elements *= dim;
    (parameter.layer >= 0 ? in_layer : outside) += elements;
  }
  return outside + in_layer * model.num_layers;
}

LocalSlice SliceOf(const ParameterSpec& parameter, int tensor_parallel_size, int tensor_rank) {
  LocalSlice slice{.shape = parameter.global_shape};
  const ParameterShard& shard = parameter.shard;
  const int ranks_per_shard = tensor_parallel_size / shard.num_shards;
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

}  // namespace tessera::spec
