// What kind each layer is. Layers of one form are alike: same parameters, same operations.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "cost_model/spec/model_spec.h"
#include "cost_model/spec/stage_partition.h"

namespace tessera::spec {

struct LayerForm {
  bool has_experts = false;  // in place of the MLP
  bool is_windowed = false;  // attends to the window alone
  bool operator==(const LayerForm&) const = default;
};

inline constexpr size_t kNumLayerForms = 4;
// Something for each form, by IndexOf.
template <typename T>
using PerForm = std::array<T, kNumLayerForms>;
constexpr size_t IndexOf(const LayerForm& form) {
  return (form.has_experts ? 2 : 0) + (form.is_windowed ? 1 : 0);
}
constexpr LayerForm FormAt(size_t index) {
  return {.has_experts = (index & 2) != 0, .is_windowed = (index & 1) != 0};
}

// Form of a layer, by its number in the model. The leading layers are dense; of every
// full_attention_interval layers the last attends to all tokens. Multi-token layers, which follow
// the others, have the form of the last one.
LayerForm LayerFormOf(const ModelSpec& model, int layer);
LayerForm MultiTokenLayerForm(const ModelSpec& model);

// The first layer of a form; none where the model has no such layer.
std::optional<int> FirstLayerOf(const ModelSpec& model, const LayerForm& form);

// How many layers of each form a virtual stage holds, in constant time. Multi-token layers are part
// of the head and not counted.
PerForm<int> CountForms(const ModelSpec& model, const VirtualStage& stage);

}  // namespace tessera::spec
