// Two layouts held against each other: what rounding leaves is no difference, a planted fault is
// one, and is named.
#include "engine/train/layout_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/testing/faulty_device.h"
#include "tests/testing/trained_model.h"

namespace tessera::testing {
namespace {

using engine::ComparedKind;
using engine::CompareTrainings;
using engine::Difference;
using engine::LayoutComparison;
using ::testing::ElementsAre;

// A GPT whose keys have a bias, of which a softmax knows nothing: its gradient is rounding alone.
spec::Plan SmallPlan(const spec::ParallelSpec& parallel) {
  spec::Plan plan{.model = {.name = "small",
                            .num_layers = 2,
                            .hidden_size = 16,
                            .num_attention_heads = 2,
                            .num_key_value_heads = 2,
                            .head_dim = 8,
                            .ffn_hidden_size = 32,
                            .vocab_size = 64,
                            .max_sequence_length = 8,
                            .qkv_bias = true,
                            .tied_embeddings = true},
                  .parallel = parallel,
                  .threads_per_rank = 1};
  plan.parallel.vocab_size_multiple = 8;
  plan.training = {.global_batch_size = 8,
                   .sequence_length = 8,
                   .steps = 3,
                   .precision = spec::Precision::kFp32};
  plan.num_devices = spec::WorldSize(parallel);
  return plan;
}

LayoutComparison Compare(const spec::Plan& plan, const TrainedModel& a, const TrainedModel& b,
                         double tolerance) {
  return CompareTrainings(plan.model, plan.training, a, b, tolerance);
}

double DefaultTolerance() { return engine::DefaultTolerance(spec::Precision::kFp32); }

const TrainedModel& TrainedOnOneRank() {
  static const TrainedModel trained =
      TrainOnThreads(SmallPlan({.attention = spec::AttentionKind::kUnfused}));
  return trained;
}

TEST(LayoutComparisonTest, RoundingIsNoDifferenceThoughAdamMakesWholeUpdatesOfIt) {
  const TrainedModel& a = TrainedOnOneRank();
  const spec::Plan plan =
      SmallPlan({.tensor_parallel_size = 2, .pipeline_parallel_size = 2, .data_parallel_size = 2});
  const TrainedModel b = TrainOnThreads(plan);
  const LayoutComparison comparison = Compare(plan, a, b, DefaultTolerance());
  EXPECT_FALSE(comparison.first.has_value())
      << ToString(comparison.first->kind) << ' ' << comparison.first->name << ' '
      << comparison.first->deviation;
  EXPECT_EQ(comparison.kinds.size(), engine::kNumComparedKinds);
  // What the exception is for: by its own size the bias of keys is far off.
  const std::string bias = "layers.0.attention.k.bias";
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.weights.at(bias).values.size(); ++i) {
    const float value = a.weights.at(bias).values[i];
    largest = std::max(largest, std::abs(static_cast<double>(value)));
    difference =
        std::max(difference, std::abs(static_cast<double>(value) - b.weights.at(bias).values[i]));
  }
  EXPECT_GT(difference, DefaultTolerance() * largest);
}

TEST(LayoutComparisonTest, AShardThatOneRankDidNotReduceIsTheFirstGradientToDiffer) {
  const spec::Plan plan = SmallPlan({.data_parallel_size = 2, .zero_stage = 1});
  constexpr int kFaulty = 1;
  const TrainedModel b = TrainOnThreads(plan, [](engine::Communicator& world) {
    const bool is_faulty = world.rank() == kFaulty;
    return MakeLossyDevice(world, [is_faulty](const CollectiveCall& call) {
      return is_faulty && call.kind == base::OpKind::kReduceScatter &&
             call.group.starts_with("grad") && call.index == 0;
    });
  });
  const LayoutComparison comparison = Compare(plan, TrainedOnOneRank(), b, DefaultTolerance());
  ASSERT_TRUE(comparison.first.has_value());
  // The loss of the first step knows nothing of it.
  EXPECT_EQ(comparison.first->kind, ComparedKind::kGradient);
  EXPECT_THAT(comparison.first->ranks_b, ElementsAre(kFaulty));
  EXPECT_THAT(comparison.first->ranks_a, ElementsAre(0));
}

TEST(LayoutComparisonTest, TheTensorThatTheBackwardPassComesToFirstIsNamed) {
  const spec::Plan plan = SmallPlan({});
  TrainedModel b = TrainedOnOneRank();
  b.first_gradients.at("layers.0.mlp.up.weight").values[16 * 3 + 7] += 1;
  b.first_gradients.at("layers.1.mlp.down.weight").values[32 * 5 + 1] += 1;
  b.weights.at("final_norm.weight").values[2] += 1;
  const LayoutComparison comparison = Compare(plan, TrainedOnOneRank(), b, DefaultTolerance());
  ASSERT_TRUE(comparison.first.has_value());
  EXPECT_EQ(comparison.first->kind, ComparedKind::kGradient);
  EXPECT_EQ(comparison.first->name, "layers.1.mlp.down.weight");
  EXPECT_THAT(comparison.first->index, ElementsAre(5, 1));  // of [hidden 16, ffn 32]
  EXPECT_NEAR(comparison.first->b - comparison.first->a, 1, 1e-6);
  EXPECT_THAT(comparison.first->ranks_b, ElementsAre(0));
}

// What is wrong in one kind alone is found there.
TEST(LayoutComparisonTest, EveryKindIsCompared) {
  const spec::Plan plan = SmallPlan({});
  const TrainedModel& a = TrainedOnOneRank();
  const auto first_with = [&](const auto& spoil) {
    TrainedModel b = a;
    spoil(b);
    const LayoutComparison comparison = Compare(plan, a, b, DefaultTolerance());
    return comparison.first.value_or(Difference{.kind = ComparedKind::kLoss, .name = "none"});
  };
  const std::string name = "layers.1.mlp.norm.weight";
  const auto double_it = [](GlobalTensor& tensor) { tensor.values[3] *= 2; };

  const Difference loss = first_with([](TrainedModel& b) { b.losses[1] *= 1.001; });
  EXPECT_EQ(loss.name, "step 2");
  EXPECT_NEAR(loss.deviation, 0.001, 1e-9);
  const Difference norm = first_with([](TrainedModel& b) { b.grad_norms[2] *= 1.001; });
  EXPECT_EQ(norm.kind, ComparedKind::kGradientNorm);
  EXPECT_EQ(norm.name, "step 3");
  const Difference weight = first_with([&](TrainedModel& b) { double_it(b.weights.at(name)); });
  EXPECT_EQ(weight.kind, ComparedKind::kWeight);
  EXPECT_EQ(weight.name, name);
  const Difference m = first_with([&](TrainedModel& b) { double_it(b.first_moments.at(name)); });
  EXPECT_EQ(m.kind, ComparedKind::kFirstMoment);
  const Difference v = first_with([&](TrainedModel& b) {
    GlobalTensor& tensor = b.second_moments.at(name);
    *std::max_element(tensor.values.begin(), tensor.values.end()) *= 2;
  });
  EXPECT_EQ(v.kind, ComparedKind::kSecondMoment);
  EXPECT_EQ(first_with([](TrainedModel&) {}).name, "none");
}

TEST(LayoutComparisonTest, WhatIsNoNumberOrNotThereDiffers) {
  const spec::Plan plan = SmallPlan({});
  TrainedModel b = TrainedOnOneRank();
  b.weights.at("final_norm.weight").values[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Compare(plan, TrainedOnOneRank(), b, DefaultTolerance()).first->name,
            "final_norm.weight");
  b = TrainedOnOneRank();
  b.weights.at("final_norm.weight").is_held[2] = false;
  EXPECT_THAT(Compare(plan, TrainedOnOneRank(), b, DefaultTolerance()).first->index,
              ElementsAre(2));
  b = TrainedOnOneRank();
  b.weights.erase("final_norm.weight");
  EXPECT_TRUE(
      std::isinf(Compare(plan, TrainedOnOneRank(), b, DefaultTolerance()).first->deviation));
}

TEST(LayoutComparisonTest, ReplicasThatAreNotEqualDiffer) {
  const spec::Plan plan = SmallPlan({});
  TrainedModel b = TrainedOnOneRank();
  b.weights.at("final_norm.weight").num_holders_that_differ = 1;
  const auto first = Compare(plan, TrainedOnOneRank(), b, DefaultTolerance()).first;
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->num_replicas_apart, 1);
}

TEST(LayoutComparisonTest, MasterWeightsOfMixedPrecisionAreCompared) {
  spec::Plan one = SmallPlan({.attention = spec::AttentionKind::kUnfused});
  one.training.precision = spec::Precision::kBf16;
  spec::Plan two = SmallPlan({.tensor_parallel_size = 2, .data_parallel_size = 2});
  two.training.precision = spec::Precision::kBf16;
  const LayoutComparison comparison = Compare(one, TrainOnThreads(one), TrainOnThreads(two),
                                              engine::DefaultTolerance(spec::Precision::kBf16));
  EXPECT_FALSE(comparison.first.has_value())
      << ToString(comparison.first->kind) << ' ' << comparison.first->name << ' '
      << comparison.first->deviation;
}

}  // namespace
}  // namespace tessera::testing
