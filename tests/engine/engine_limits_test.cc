#include "engine/train/engine_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

using ::testing::HasSubstr;

spec::Plan ToyPlan() {
  spec::Plan plan;
  plan.model = {.name = "toy",
                .num_layers = 4,
                .hidden_size = 64,
                .num_attention_heads = 4,
                .num_key_value_heads = 4,
                .head_dim = 16,
                .ffn_hidden_size = 256,
                .vocab_size = 128,
                .max_sequence_length = 64};
  plan.training = {
      .global_batch_size = 8, .sequence_length = 64, .precision = spec::Precision::kFp32};
  plan.parallel = {.data_parallel_size = 4};
  plan.num_devices = 4;
  return plan;
}

TEST(CheckExecutableTest, APlainPlanRunsIn32And16Bits) {
  for (const spec::Precision precision :
       {spec::Precision::kFp32, spec::Precision::kBf16, spec::Precision::kFp16}) {
    spec::Plan plan = ToyPlan();
    plan.training.precision = precision;
    EXPECT_NO_THROW(CheckExecutable(plan)) << spec::ToString(precision);
  }
}

TEST(CheckExecutableTest, EveryWayToShardRuns) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const int group : {0, 1, 2}) {
      spec::Plan plan = ToyPlan();
      plan.parallel.zero_stage = zero_stage;
      plan.parallel.zero_group_size = group;
      plan.parallel.overlap_param_gather = true;
      plan.parallel.offload_optimizer = true;
      EXPECT_NO_THROW(CheckExecutable(plan)) << zero_stage << " in groups of " << group;
    }
  }
}

// Whatever the planner can price and the engine cannot run is refused by name.
TEST(CheckExecutableTest, WhatIsOnlyPlannedIsRefusedWithItsReason) {
  struct Case {
    std::function<void(spec::Plan&)> edit;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {[](auto& plan) {
         plan.parallel.zero_stage = 2;
         plan.parallel.schedule = spec::ScheduleKind::kZeroBubbleH1;
       },
       "zb-h1 with sharded gradients"},
      {[](auto& plan) { plan.parallel.gradient_reduce_type = base::DType::kBFloat16; },
       "gradient_reduce_type"},
      {[](auto& plan) {
         plan.model.moe =
             spec::MoeSpec{.num_experts = 4, .experts_per_token = 2, .expert_ffn_hidden_size = 64};
         plan.model.mlp_bias = true;
       },
       "biases of experts"},
      {[](auto& plan) {
         plan.model.moe = spec::MoeSpec{.num_experts = 4,
                                        .experts_per_token = 2,
                                        .expert_ffn_hidden_size = 64,
                                        .shared_expert_ffn_hidden_size = 64,
                                        .shared_expert_gate = true};
       },
       "gates of shared experts"},
      {[](auto& plan) { plan.model.sliding_window = spec::SlidingWindowSpec{.size = 16}; },
       "sliding-window"},
      {[](auto& plan) { plan.model.num_multi_token_layers = 1; }, "multi-token"},
      {[](auto& plan) { plan.training.precision = spec::Precision::kFp8; }, "precision fp8"}};
  for (const Case& c : cases) {
    spec::Plan plan = ToyPlan();
    c.edit(plan);
    try {
      CheckExecutable(plan);
      FAIL() << c.reason << " was accepted";
    } catch (const base::InfeasibleError& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.reason));
    }
  }
}

TEST(CheckExecutableTest, ABrokenRuleIsRefusedWithItsNumbers) {
  spec::Plan plan = ToyPlan();
  plan.training.global_batch_size = 7;
  try {
    CheckExecutable(plan);
    FAIL() << "7 samples were accepted on 4 ranks";
  } catch (const base::InfeasibleError& error) {
    EXPECT_THAT(error.what(), HasSubstr("7"));
  }
}

}  // namespace
}  // namespace tessera::engine
