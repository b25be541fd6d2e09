#include "cost_model/spec/layer_form.h"

#include <gtest/gtest.h>

namespace tessera::spec {
namespace {

// Six layers: a dense one, then experts; every third attends to all tokens.
ModelSpec MixedModel() {
  ModelSpec model;
  model.num_layers = 6;
  model.moe = MoeSpec{.num_experts = 8, .num_leading_dense_layers = 1};
  model.sliding_window = SlidingWindowSpec{.size = 128, .full_attention_interval = 3};
  return model;
}

constexpr LayerForm kDenseWindowed{.has_experts = false, .is_windowed = true};
constexpr LayerForm kExpertsFull{.has_experts = true, .is_windowed = false};
constexpr LayerForm kExpertsWindowed{.has_experts = true, .is_windowed = true};

TEST(LayerFormTest, ALayerIsDenseOrOfExpertsAndWindowedOrFull) {
  const ModelSpec model = MixedModel();
  EXPECT_EQ(LayerFormOf(model, 0), kDenseWindowed);
  EXPECT_EQ(LayerFormOf(model, 1), kExpertsWindowed);
  EXPECT_EQ(LayerFormOf(model, 2), kExpertsFull);
  EXPECT_EQ(LayerFormOf(model, 3), kExpertsWindowed);
  EXPECT_EQ(LayerFormOf(model, 5), kExpertsFull);
  EXPECT_EQ(MultiTokenLayerForm(model), kExpertsFull);
  EXPECT_EQ(FirstLayerOf(model, kExpertsFull), 2);
  EXPECT_EQ(FirstLayerOf(model, LayerForm{}), std::nullopt);
}

TEST(LayerFormTest, WithoutAnIntervalEveryLayerIsWindowed) {
  ModelSpec model = MixedModel();
  model.sliding_window->full_attention_interval = 0;
  EXPECT_TRUE(LayerFormOf(model, 5).is_windowed);
}

TEST(LayerFormTest, IndicesAndFormsAreOneToOne) {
  for (size_t i = 0; i < kNumLayerForms; ++i) EXPECT_EQ(IndexOf(FormAt(i)), i);
}

TEST(LayerFormTest, CountsOfAnyRangeAreThoseOfItsLayers) {
  const ModelSpec model = MixedModel();
  for (int first = 0; first <= model.num_layers; ++first) {
    for (int end = first; end <= model.num_layers; ++end) {
      PerForm<int> counted = {};
      for (int layer = first; layer < end; ++layer) ++counted[IndexOf(LayerFormOf(model, layer))];
      EXPECT_EQ(CountForms(model, {.first_layer = first, .num_layers = end - first}), counted)
          << first << " to " << end;
    }
  }
}

}  // namespace
}  // namespace tessera::spec
