// Training states of any layout whose every element tells which element of the model it is.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cost_model/base/philox.h"
#include "cost_model/spec/flat_layout.h"
#include "cost_model/spec/parallel_spec.h"
#include "cost_model/spec/rank_layout.h"
#include "cost_model/spec/stage_partition.h"
#include "engine/checkpoint/manifest.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine::test {

// Sizes that are all different and divide as little as a layout of 4 tensor ranks allows.
inline spec::ModelSpec TinyGpt2() {
  spec::ModelSpec model;
  model.name = "tiny-gpt2";
  model.num_layers = 4;
  model.hidden_size = 16;
  model.num_attention_heads = model.num_key_value_heads = 4;
  model.head_dim = 4;
  model.ffn_hidden_size = 20;
  model.vocab_size = 37;
  model.max_sequence_length = 11;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  model.tied_embeddings = true;
  return model;
}

inline spec::ModelSpec TinyLlama(int num_key_value_heads = 2, bool tied = false) {
  spec::ModelSpec model;
  model.name = "tiny-llama";
  model.norm = spec::NormKind::kRmsNorm;
  model.position = spec::PositionKind::kRope;
  model.activation = spec::ActivationKind::kSwiGlu;
  model.num_layers = 4;
  model.hidden_size = 12;
  model.num_attention_heads = 4;
  model.num_key_value_heads = num_key_value_heads;
  model.head_dim = 6;  // 4 heads of 6 are wider than the hidden size
  model.ffn_hidden_size = 28;
  model.vocab_size = 37;
  model.max_sequence_length = 64;
  model.tied_embeddings = tied;
  return model;
}

inline spec::ModelSpec TinyQwen2() {
  spec::ModelSpec model = TinyLlama();
  model.name = "tiny-qwen2";
  model.hidden_size = 16;
  model.head_dim = 4;  // 4 heads of 4 are the hidden size, as that family has it
  model.qkv_bias = true;
  return model;
}

// A layer of a dense MLP, then two of four experts and a shared one.
inline spec::ModelSpec TinyMixture() {
  spec::ModelSpec model = TinyLlama();
  model.name = "tiny-mixture";
  model.num_layers = 3;
  model.moe = spec::MoeSpec{.num_experts = 4,
                            .experts_per_token = 2,
                            .expert_ffn_hidden_size = 20,
                            .shared_expert_ffn_hidden_size = 8,
                            .num_leading_dense_layers = 1};
  return model;
}

inline spec::ParallelSpec Layout(int tensor, int pipeline, int data, int virtual_pipeline = 1,
                                 int zero_stage = 1) {
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = tensor;
  parallel.pipeline_parallel_size = pipeline;
  parallel.data_parallel_size = data;
  parallel.virtual_pipeline_size = virtual_pipeline;
  if (virtual_pipeline > 1) parallel.schedule = spec::ScheduleKind::kInterleaved;
  parallel.zero_stage = zero_stage;
  parallel.vocab_size_multiple = 4;
  parallel.bucket_elements = 300;  // several buckets
  return parallel;
}

inline std::string LayoutText(const spec::ParallelSpec& parallel) {
  return "tp" + std::to_string(parallel.tensor_parallel_size) + " pp" +
         std::to_string(parallel.pipeline_parallel_size) + " dp" +
         std::to_string(parallel.data_parallel_size) + " vpp" +
         std::to_string(parallel.virtual_pipeline_size) + " ep" +
         std::to_string(parallel.expert_parallel_size) + " etp" +
         std::to_string(parallel.expert_tensor_parallel_size) + " zero" +
         std::to_string(parallel.zero_stage);
}

// What element `global_index` of a parameter's weight or moment is in these tests.
class ReferenceValues {
 public:
  ReferenceValues(const std::string& parameter, StateKind kind)
      : key_(base::MakePhiloxKey(static_cast<uint64_t>(kind), parameter)) {}
  float At(int64_t global_index) const {
    return static_cast<float>(base::UniformAt(key_, static_cast<uint64_t>(global_index))) - 0.5f;
  }

 private:
  base::PhiloxKey key_;
};

// Global index of a stored element; -1 for padding. Index by index, as the definition says.
inline int64_t GlobalIndex(const spec::ParameterSpec& parameter, const spec::LocalSlice& slice,
                           int64_t element) {
  int64_t global = 0;
  int64_t stride = 1;
  for (int dim = static_cast<int>(slice.shape.size()) - 1; dim >= 0; --dim) {
    int64_t index = element % slice.shape[dim];
    element /= slice.shape[dim];
    if (dim == slice.dim) {
      if (index >= slice.size) return -1;
      index += slice.begin;
    }
    global += index * stride;
    stride *= parameter.global_shape[dim];
  }
  return global;
}

// The state of one rank, with the memory behind it.
class RankState {
 public:
  RankState(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
            const spec::RankCoord& coord) {
    const spec::RankLayout ranks(parallel);
    const int rank = ranks.RankOf(coord);
    state_.parameters = spec::RankParameters(
        model, parallel, spec::StagesOf(spec::PartitionStages(model, parallel), coord.pipeline),
        ranks.IndexIn(rank, spec::Axis::kExpert));
    for (const spec::ParameterSpec& each : state_.parameters) {
      const int tensor_rank =
          each.is_expert ? ranks.IndexIn(rank, spec::Axis::kExpertTensor) : coord.tensor;
      state_.slices.push_back(spec::SliceOf(each, spec::TensorSizeOf(each, parallel), tensor_rank));
    }
    state_.layout = spec::MakeFlatLayout(state_.parameters, parallel);
    state_.owned = spec::OwnedRanges(state_.layout, parallel, ranks, rank);
    num_owned_ = spec::NumOwnedElements(state_.owned);
    state_.has_owned_weights_alone = parallel.zero_stage == 3;
    Fill(std::numeric_limits<float>::quiet_NaN());
  }
  RankState(RankState&&) = default;

  TrainState& state() { return state_; }
  const TrainState& state() const { return state_; }

  void Fill(float value) {
    weights_.assign(static_cast<size_t>(NumWeights(state_)), value);
    m_.assign(static_cast<size_t>(num_owned_), value);
    v_.assign(static_cast<size_t>(num_owned_), value);
    state_.weights = weights_.data();
    state_.m = m_.data();
    state_.v = v_.data();
  }

  // Padding stays what it is.
  void FillWithReference() {
    ForEachElement([](float& element, int64_t global, const ReferenceValues& values) {
      if (global >= 0) element = values.At(global);
    });
  }

  // Elements that are not the reference's, or not zero where padding.
  int64_t NumWrong(bool expect_moments = true) {
    int64_t num_wrong = 0;
    ForEachElement([&](float element, int64_t global, const ReferenceValues& values) {
      const bool is_zero = global < 0 || (!expect_moments && values_kind_ != StateKind::kWeight);
      num_wrong += element != (is_zero ? 0.0f : values.At(global));
    });
    return num_wrong;
  }

 private:
  // visit(element, global index or -1, values of its parameter) over weights, then the moments.
  template <typename Visit>
  void ForEachElement(const Visit& visit) {
    for (size_t p = 0; p < state_.parameters.size(); ++p) {
      const spec::ParameterSpec& parameter = state_.parameters[p];
      const int64_t offset = state_.layout.parameters[p].offset;
      values_kind_ = StateKind::kWeight;
      const ReferenceValues weight(parameter.name, StateKind::kWeight);
      for (int64_t i = 0; i < state_.slices[p].num_elements && !state_.has_owned_weights_alone;
           ++i) {
        visit(weights_[offset + i], GlobalIndex(parameter, state_.slices[p], i), weight);
      }
      for (const StateKind kind : {StateKind::kWeight, StateKind::kM, StateKind::kV}) {
        if (kind == StateKind::kWeight && !state_.has_owned_weights_alone) continue;
        values_kind_ = kind;
        const ReferenceValues moment(parameter.name, kind);
        std::vector<float>& moments = kind == StateKind::kWeight ? weights_
                                      : kind == StateKind::kM    ? m_
                                                                 : v_;
        for (const spec::OwnedRange& range : state_.owned) {
          for (int64_t i = 0; i < range.num_elements; ++i) {
            const int64_t element = range.offset + i - offset;
            if (element < 0 || element >= state_.slices[p].num_elements) continue;
            visit(moments[range.state_offset + i],
                  GlobalIndex(parameter, state_.slices[p], element), moment);
          }
        }
      }
    }
  }

  TrainState state_;
  std::vector<float> weights_, m_, v_;
  int64_t num_owned_ = 0;
  StateKind values_kind_ = StateKind::kWeight;  // being visited
};

}  // namespace tessera::engine::test
