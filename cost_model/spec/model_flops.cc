// Model FLOPs of a step: declared in op_list.h.
#include <algorithm>

#include "cost_model/spec/layer_form.h"
#include "cost_model/spec/op_list.h"

namespace tessera::spec {
namespace {

// Multiply-adds a token of one layer's attention, forward. Latent attention counts its two norms
// with one multiply-add an element, as Megatron-LM does.
double AttentionMacs(const ModelSpec& model, const TrainingSpec& training, const LayerForm& form,
                     FlopsConvention convention) {
  const auto h = static_cast<double>(model.hidden_size);
  const auto s = static_cast<double>(training.sequence_length);
  const auto heads = static_cast<double>(model.num_attention_heads);
  const auto head_dim = static_cast<double>(model.head_dim);
  // Keys that a query sees on average.
  const double window =
      form.is_windowed ? std::min(s, static_cast<double>(model.sliding_window->size)) : s;
  const double keys =
      convention == FlopsConvention::kCausal ? window - window * window / (2 * s) : window;
  if (!model.mla) {
    const double q_width = heads * head_dim;
    const double kv_width = static_cast<double>(model.num_key_value_heads) * head_dim;
    return h * (2 * q_width + 2 * kv_width) + 2 * keys * q_width;
  }
  const auto q_rank = static_cast<double>(model.mla->q_lora_rank);
  const auto kv_rank = static_cast<double>(model.mla->kv_lora_rank);
  const auto nope_dim = static_cast<double>(model.mla->qk_nope_head_dim);
  const auto rope_dim = static_cast<double>(model.mla->qk_rope_head_dim);
  const auto v_dim = static_cast<double>(model.mla->v_head_dim);
  const double queries = q_rank > 0 ? q_rank * (h + heads * (nope_dim + rope_dim) + 1)
                                    : h * heads * (nope_dim + rope_dim);
  const double keys_and_values = kv_rank * (h + heads * (nope_dim + v_dim) + 1) + h * rope_dim;
  return queries + keys_and_values + heads * v_dim * h +
         keys * heads * (nope_dim + rope_dim + v_dim);
}

// The same of its MLP: of the experts those that a token visits; the router does not count.
double MlpMacs(const ModelSpec& model, const LayerForm& form) {
  const double num_products = model.activation == ActivationKind::kSwiGlu ? 3 : 2;
  int64_t width = model.ffn_hidden_size;
  if (form.has_experts) {
    width = model.moe->expert_ffn_hidden_size * model.moe->experts_per_token +
            model.moe->shared_expert_ffn_hidden_size;
  }
  return num_products * static_cast<double>(model.hidden_size * width);
}

}  // namespace

double ModelFlopsPerStep(const ModelSpec& model, const TrainingSpec& training,
                         FlopsConvention convention) {
  const auto h = static_cast<double>(model.hidden_size);
  PerForm<int> counts = CountForms(model, {.num_layers = model.num_layers});
  counts[IndexOf(MultiTokenLayerForm(model))] += model.num_multi_token_layers;
  double macs = h * static_cast<double>(model.vocab_size) * (1 + model.num_multi_token_layers);
  // A multi-token module's three norms and its 2h -> h product.
  macs += model.num_multi_token_layers * (3 * h + 2 * h * h);
  for (size_t i = 0; i < kNumLayerForms; ++i) {
    if (counts[i] == 0) continue;
    const LayerForm form = FormAt(i);
    macs += counts[i] * (AttentionMacs(model, training, form, convention) + MlpMacs(model, form));
  }
  const double tokens = static_cast<double>(training.global_batch_size) *
                        static_cast<double>(training.sequence_length);
  return 3 * 2 * tokens * macs;
}

}  // namespace tessera::spec
