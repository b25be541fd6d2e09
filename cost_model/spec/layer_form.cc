#include "cost_model/spec/layer_form.h"

#include <algorithm>

namespace tessera::spec {
namespace {

// Layers before `end` that attend to a window.
int WindowedBefore(const ModelSpec& model, int end) {
  if (!model.sliding_window) return 0;
  const int interval = model.sliding_window->full_attention_interval;
  return interval > 0 ? end - end / interval : end;
}

}  // namespace

LayerForm LayerFormOf(const ModelSpec& model, int layer) {
  return {.has_experts = model.moe && layer >= model.moe->num_leading_dense_layers,
          .is_windowed = WindowedBefore(model, layer + 1) > WindowedBefore(model, layer)};
}

LayerForm MultiTokenLayerForm(const ModelSpec& model) {
  return LayerFormOf(model, model.num_layers - 1);
}

std::optional<int> FirstLayerOf(const ModelSpec& model, const LayerForm& form) {
  for (int layer = 0; layer < model.num_layers; ++layer) {
    if (LayerFormOf(model, layer) == form) return layer;
  }
  return std::nullopt;
}

PerForm<int> CountForms(const ModelSpec& model, const VirtualStage& stage) {
  PerForm<int> counts = {};
  const int begin = stage.first_layer;
  const int end = begin + stage.num_layers;
  // Dense layers first, then those with experts.
  const int border = model.moe ? std::clamp(model.moe->num_leading_dense_layers, begin, end) : end;
  const auto count = [&](int from, int to, bool has_experts) {
    const int windowed = WindowedBefore(model, to) - WindowedBefore(model, from);
    counts[IndexOf({.has_experts = has_experts, .is_windowed = true})] = windowed;
    counts[IndexOf({.has_experts = has_experts})] = to - from - windowed;
  };
  count(begin, border, false);
  count(border, end, true);
  return counts;
}

}  // namespace tessera::spec
