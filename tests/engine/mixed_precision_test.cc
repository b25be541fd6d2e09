// Training with 16-bit parameters and fp32 master weights, here on the CPU's 16-bit arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "cost_model/base/check.h"
#include "cost_model/base/float16.h"
#include "engine/train/rank_trainer.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

constexpr int kNumSteps = 4;

// The GPT and the Llama of the conformance plans.
std::vector<spec::Plan> Models(spec::Precision precision) {
  std::vector<spec::Plan> plans;
  for (const testing::NamedPlan& named : testing::ConformancePlans(precision)) {
    if (plans.empty() || plans.back().model.name != named.plan.model.name) {
      plans.push_back(named.plan);
    }
  }
  return plans;
}

spec::Plan WithLayout(spec::Plan plan, const spec::ParallelSpec& parallel) {
  plan.parallel = parallel;
  plan.parallel.vocab_size_multiple = 8;
  plan.parallel.bucket_elements = 5000;
  plan.num_devices = spec::WorldSize(parallel);
  return plan;
}

const std::vector<spec::ParallelSpec> kLayouts = {
    {},
    {.tensor_parallel_size = 2, .sequence_parallel = true},
    {.pipeline_parallel_size = 2, .data_parallel_size = 2, .zero_stage = 1}};

// Runs body(trainer) on every rank.
void OnTrainers(const spec::Plan& plan, const std::function<void(RankTrainer&)>& body,
                std::optional<MemoryPoolOptions> memory = std::nullopt) {
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  testing::RunRanks(plan.num_devices, [&](Communicator& world) {
    const auto device = MakeRankDevice({}, world);
    RankTrainer trainer(plan, *device, world, source, memory);
    body(trainer);
  });
}

std::vector<double> Losses(const spec::Plan& plan,
                           std::optional<MemoryPoolOptions> memory = std::nullopt) {
  std::vector<double> losses;
  std::mutex mutex;
  OnTrainers(
      plan,
      [&](RankTrainer& trainer) {
        for (int step = 0; step < kNumSteps; ++step) {
          const StepResult result = trainer.Step(false);
          const std::lock_guard lock(mutex);
          losses.resize(kNumSteps);
          losses[static_cast<size_t>(step)] = result.loss;
        }
      },
      memory);
  return losses;
}

// What an operation rounds to bf16 is off by 2^-9 at most, to fp16 by 2^-12; losses are means over
// many such.
TEST(MixedPrecisionTest, LossesFollowThoseOfFp32) {
  const std::vector<spec::Plan> exact = Models(spec::Precision::kFp32);
  for (const auto& [precision, tolerance] :
       {std::pair{spec::Precision::kBf16, 1e-2}, std::pair{spec::Precision::kFp16, 2e-3}}) {
    const std::vector<spec::Plan> rounded = Models(precision);
    for (size_t model = 0; model < exact.size(); ++model) {
      const std::vector<double> expected = Losses(WithLayout(exact[model], {}));
      for (const spec::ParallelSpec& layout : kLayouts) {
        const std::vector<double> losses = Losses(WithLayout(rounded[model], layout));
        for (size_t i = 0; i < losses.size(); ++i) {
          EXPECT_NEAR(losses[i], expected[i], tolerance * expected[i])
              << ToString(precision) << ", " << exact[model].model.name << ", step " << i + 1;
        }
      }
    }
  }
}

TEST(MixedPrecisionTest, ParametersAreTheRoundedMasterWeights) {
  for (const spec::ParallelSpec& layout : kLayouts) {
    const spec::Plan plan = WithLayout(Models(spec::Precision::kBf16).front(), layout);
    OnTrainers(plan, [](RankTrainer& trainer) {
      for (int step = 0; step < kNumSteps; ++step) {
        const HostState host = trainer.State();
        const auto* parameters = static_cast<const uint16_t*>(trainer.store().weights().data);
        int64_t num_wrong = 0;
        int64_t num_finer = 0;
        for (int64_t i = 0; i < host.state().layout.num_elements; ++i) {
          const float master = host.state().weights[i];
          num_wrong += base::FloatToBFloat16(master) != parameters[i];
          num_finer += base::BFloat16ToFloat(parameters[i]) != master;
        }
        EXPECT_EQ(num_wrong, 0) << "step " << step;
        EXPECT_GT(num_finer, 0) << "step " << step;
        trainer.Step(false);
      }
    });
  }
}

TEST(MixedPrecisionTest, AStateTakenToTheHostAndBackGoesOnAlike) {
  const spec::Plan plan = WithLayout(Models(spec::Precision::kBf16).front(), kLayouts.back());
  OnTrainers(plan, [&](RankTrainer& trainer) {
    trainer.Step(false);
    const HostState kept = trainer.State();
    const double expected = trainer.Step(false).loss;
    trainer.Step(false);
    kept.Upload();
    trainer.SetProgress(kept.state().progress);
    EXPECT_EQ(trainer.Step(false).loss, expected);
  });
}

// Multiplies a parameter where the rank holds it.
void Multiply(RankTrainer& trainer, const std::string& name, float factor) {
  HostState host = trainer.State();
  const TrainState& state = host.state();
  for (size_t p = 0; p < state.parameters.size(); ++p) {
    if (state.parameters[p].name != name) continue;
    const spec::FlatParameter& flat = state.layout.parameters[p];
    for (int64_t i = 0; i < flat.num_elements; ++i) state.weights[flat.offset + i] *= factor;
  }
  host.Upload();
}

// The gradient of the logits, times the loss scale of 2^16 over 128 tokens, goes through the output
// projection: with weights around 160 it leaves the range of fp16, which ends at 65504; the logits
// do not.
TEST(MixedPrecisionTest, GradientsThatOverflowAreSkippedUntilTheScaleIsSmallEnough) {
  const spec::Plan plan = WithLayout(Models(spec::Precision::kFp16).at(1), kLayouts.back());
  OnTrainers(plan, [](RankTrainer& trainer) {
    Multiply(trainer, "output.weight", 8000);
    const HostState before = trainer.State();
    double scale = 65536;
    int num_skipped = 0;
    StepResult result = trainer.Step(false);
    while (result.skipped && num_skipped < 16) {
      EXPECT_EQ(result.loss_scale, scale);
      const HostState after = trainer.State();
      for (const spec::OwnedRange& range : after.state().owned) {
        EXPECT_EQ(after.state().weights[range.offset], before.state().weights[range.offset]);
      }
      scale /= 2;
      ++num_skipped;
      result = trainer.Step(false);
    }
    EXPECT_GT(num_skipped, 0);
    EXPECT_FALSE(result.skipped);
    EXPECT_EQ(result.loss_scale, scale);
    EXPECT_TRUE(std::isfinite(result.grad_norm));
  });
}

TEST(LossScalerTest, TheScaleHalvesAtAnOverflowAndDoublesAfterAThousandGoodSteps) {
  LossScaler scaler(spec::Precision::kFp16);
  scaler.OnSkippedStep();
  EXPECT_EQ(scaler.scale(), 32768);
  for (int i = 0; i < 999; ++i) scaler.OnGoodStep();
  EXPECT_EQ(scaler.scale(), 32768);
  scaler.OnGoodStep();
  EXPECT_EQ(scaler.scale(), 65536);
  for (int i = 0; i < 999; ++i) scaler.OnGoodStep();
  scaler.OnSkippedStep();  // starts to count anew
  scaler.OnGoodStep();
  EXPECT_EQ(scaler.scale(), 32768);
  for (int i = 0; i < 20; ++i) scaler.OnSkippedStep();
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(scaler.can_back_off());
}

TEST(LossScalerTest, ARestoredScalerGoesOnAsTheSavedOne) {
  LossScaler saved(spec::Precision::kFp16);
  saved.OnSkippedStep();
  for (int i = 0; i < 400; ++i) saved.OnGoodStep();
  LossScaler restored(spec::Precision::kFp16);
  restored.Restore(saved.state());
  for (int i = 0; i < 599; ++i) restored.OnGoodStep();
  EXPECT_EQ(restored.scale(), 32768);
  restored.OnGoodStep();
  EXPECT_EQ(restored.scale(), 65536);
}

TEST(LossScalerTest, AStateOfAnotherPrecisionChangesNothing) {
  LossScaler fp16(spec::Precision::kFp16);
  fp16.Restore(LossScaler(spec::Precision::kBf16).state());
  EXPECT_EQ(fp16.scale(), 65536);
  LossScaler bf16(spec::Precision::kBf16);
  bf16.Restore(fp16.state());
  EXPECT_EQ(bf16.scale(), 1);
}

TEST(LossScalerTest, OnlyFp16IsScaled) {
  for (const auto precision : {spec::Precision::kFp32, spec::Precision::kBf16}) {
    LossScaler scaler(precision);
    for (int i = 0; i < 2000; ++i) scaler.OnGoodStep();
    EXPECT_EQ(scaler.scale(), 1);
    EXPECT_FALSE(scaler.can_back_off());
  }
}

// Whoever reads memory that nobody wrote reads NaN; whoever writes outside of his own block,
// others'.
TEST(MemoryPoolTest, WhatBlocksHoldWhenTheyAreHandedOutDoesNotMatter) {
  for (const auto precision : {spec::Precision::kFp32, spec::Precision::kBf16}) {
    for (const spec::Plan& model : Models(precision)) {
      for (const spec::ParallelSpec& layout : kLayouts) {
        const spec::Plan plan = WithLayout(model, layout);
        const std::vector<double> losses = Losses(plan);
        EXPECT_EQ(Losses(plan, MemoryPoolOptions{.poison = true}), losses);
        EXPECT_EQ(Losses(plan, MemoryPoolOptions{.arena_bytes = 1 << 22, .poison = true}), losses);
        // Half of the blocks beyond the arena.
        EXPECT_EQ(Losses(plan, MemoryPoolOptions{.arena_bytes = 1 << 17, .poison = true}), losses);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::engine
