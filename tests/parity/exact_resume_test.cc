// A run that stops and goes on from its checkpoint is the run that did not stop: bit for bit, or to
// rounding under another layout.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>

#include "cost_model/base/check.h"
#include "cost_model/base/philox.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/weights_checkpoint.h"
#include "engine/train/train_job.h"
#include "tests/engine/data_test_files.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/expert_plans.h"
#include "tests/testing/run_ranks.h"

namespace tessera::testing {
namespace {

using engine::CheckpointFolderName;
using engine::CheckpointReader;
using engine::StateKind;
using engine::test::TestFolder;

constexpr int64_t kHalf = 3;  // steps until the stop
// Relative; fp32 with sums in another order.
constexpr double kOtherLayoutTolerance = 1e-6;

spec::ModelSpec ModelNamed(const std::string& name, const std::vector<NamedPlan>& plans) {
  for (const NamedPlan& each : plans) {
    if (each.plan.model.name == name) return each.plan.model;
  }
  TESSERA_CHECK(false, "no model ", name);
}

struct Row {
  double loss = 0;
  double grad_norm = 0;
  double loss_scale = 0;
  bool skipped = false;
  int64_t consumed_samples = 0;
  bool operator==(const Row&) const = default;
};
using Rows = std::map<int64_t, Row>;  // by step

// Trains small models on a data file of little more than one epoch.
class ExactResumeTest : public ::testing::Test {
 protected:
  engine::TrainOptions Options(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
                               spec::Precision precision = spec::Precision::kFp32) const {
    spec::Plan plan{.model = model, .parallel = parallel, .threads_per_rank = 1};
    plan.parallel.bucket_elements = 5000;
    plan.parallel.vocab_size_multiple = 8;
    plan.training = {
        .global_batch_size = 8, .sequence_length = 16, .steps = 2 * kHalf, .precision = precision};
    plan.training.optimizer.lr = 1e-3;
    plan.num_devices = spec::WorldSize(parallel);
    std::string text;
    const auto key = base::MakePhiloxKey(1, "text");
    for (uint64_t i = 0; i < 700; ++i) {
      text += static_cast<char>(base::UniformAt(key, i) * static_cast<double>(model.vocab_size));
    }
    return {.plan = plan,
            .data_path = folder_.Write("data.u8", text),
            .data_format = engine::DataFormat::kRawU8,
            .timeout_s = kTestTimeoutSeconds};
  }

  // Trains up to a step and saves there.
  Rows Train(engine::TrainOptions options, const std::string& save) const {
    options.save_dir = folder_.Path(save);
    Rows rows;
    const engine::TrainCallbacks callbacks = {.on_step = [&](const engine::StepRow& row) {
      rows[row.result.step] = {.loss = row.result.loss,
                               // No number, and so unlike itself, of a skipped step.
                               .grad_norm = row.result.skipped ? 0 : row.result.grad_norm,
                               .loss_scale = row.result.loss_scale,
                               .skipped = row.result.skipped,
                               .consumed_samples = row.result.consumed_samples};
    }};
    engine::RunTraining(options, callbacks, stop_);
    return rows;
  }

  std::string CheckpointAt(const std::string& save, int64_t step) const {
    return folder_.Path(save) + "/" + CheckpointFolderName(step);
  }

  // All weights and moments of a checkpoint, by parameter and kind.
  std::map<std::string, std::vector<float>> StateOf(const std::string& save, int64_t step) const {
    CheckpointReader reader(CheckpointAt(save, step));
    std::map<std::string, std::vector<float>> state;
    for (const engine::CheckpointParameter& parameter : reader.manifest().parameters) {
      const engine::TensorPart whole = engine::WholeTensor(parameter.shape);
      for (const StateKind kind : {StateKind::kWeight, StateKind::kM, StateKind::kV}) {
        auto& values = state[base::Concat(parameter.name, " ", ToString(kind))];
        values.resize(static_cast<size_t>(whole.count));
        reader.Read(parameter.name, kind, whole, values.data());
      }
    }
    return state;
  }

  // Stops at half, goes on under the same options, and expects the bits of the run that went
  // through.
  void ExpectExactResume(const engine::TrainOptions& options, const std::string& name) const {
    engine::TrainOptions whole = options;
    whole.save_interval = kHalf;
    const Rows expected = Train(whole, name + "-whole");
    engine::TrainOptions resumed = options;
    resumed.resume_dir = CheckpointAt(name + "-whole", kHalf);
    const Rows rows = Train(resumed, name + "-resumed");
    ASSERT_EQ(rows.size(), static_cast<size_t>(kHalf)) << name;
    for (const auto& [step, row] : rows) EXPECT_EQ(row, expected.at(step)) << name << " " << step;
    EXPECT_EQ(StateOf(name + "-resumed", 2 * kHalf), StateOf(name + "-whole", 2 * kHalf)) << name;
    EXPECT_EQ(CheckpointReader(CheckpointAt(name + "-resumed", 2 * kHalf)).manifest().progress,
              CheckpointReader(CheckpointAt(name + "-whole", 2 * kHalf)).manifest().progress)
        << name;
  }

  // Stops at half under one layout and goes on under others, within rounding of the first.
  void ExpectResumeUnder(const spec::ModelSpec& model, const spec::ParallelSpec& first,
                         const std::vector<spec::ParallelSpec>& others) const {
    engine::TrainOptions whole = Options(model, first);
    whole.save_interval = kHalf;
    const Rows expected = Train(whole, "first");
    for (size_t i = 0; i < others.size(); ++i) {
      engine::TrainOptions resumed = Options(model, others[i]);
      resumed.resume_dir = CheckpointAt("first", kHalf);
      const Rows rows = Train(resumed, base::Concat("other", i));
      ASSERT_EQ(rows.size(), static_cast<size_t>(kHalf)) << i;
      for (const auto& [step, row] : rows) {
        const Row& wanted = expected.at(step);
        EXPECT_NEAR(row.loss, wanted.loss, kOtherLayoutTolerance * wanted.loss) << i << " " << step;
        EXPECT_EQ(row.consumed_samples, wanted.consumed_samples) << i << " " << step;
      }
    }
  }

  const TestFolder folder_;
  const std::atomic<bool> stop_ = false;
};

TEST_F(ExactResumeTest, EveryWayToShardGoesOnBitForBit) {
  const spec::ModelSpec gpt = ModelNamed("gpt", ConformancePlans());
  for (const int zero_stage : {0, 1, 2, 3}) {
    ExpectExactResume(Options(gpt, {.data_parallel_size = 2, .zero_stage = zero_stage}),
                      base::Concat("zero", zero_stage));
  }
  ExpectExactResume(Options(ModelNamed("llama", ConformancePlans()), {.tensor_parallel_size = 2,
                                                                      .pipeline_parallel_size = 2,
                                                                      .data_parallel_size = 2,
                                                                      .sequence_parallel = true,
                                                                      .zero_stage = 1}),
                    "mesh");
}

TEST_F(ExactResumeTest, CheckpointsWrittenBehindTheTrainingGoOnBitForBit) {
  const spec::ModelSpec gpt = ModelNamed("gpt", ConformancePlans());
  for (const int zero_stage : {0, 3}) {
    engine::TrainOptions options =
        Options(gpt, {.data_parallel_size = 2, .zero_stage = zero_stage});
    options.async_save = true;
    ExpectExactResume(options, base::Concat("zero", zero_stage));
  }
}

// A loss is held against those of at least five steps: of the sixth step the resumed run knows
// three by its checkpoint alone.
TEST_F(ExactResumeTest, WhatASpikeIsHeldAgainstGoesOn) {
  engine::TrainOptions options = Options(ModelNamed("gpt", ConformancePlans()), {});
  options.guard = {.on_spike = engine::SpikeAction::kSkip, .spike_loss_factor = 0.1};
  ExpectExactResume(options, "spikes");
  const engine::TrainProgress progress =
      CheckpointReader(CheckpointAt("spikes-resumed", 2 * kHalf)).manifest().progress;
  EXPECT_EQ(progress.num_skipped_steps, 1);
  EXPECT_EQ(progress.recent.losses.size(), 5U);
  EXPECT_EQ(progress.recent.num_skipped_in_a_row, 1);
}

TEST_F(ExactResumeTest, EveryPrecisionGoesOnBitForBit) {
  const spec::ModelSpec qwen = ModelNamed("qwen", ConformancePlans());
  for (const auto precision : {spec::Precision::kBf16, spec::Precision::kFp16}) {
    ExpectExactResume(Options(qwen, {.data_parallel_size = 2, .zero_stage = 1}, precision),
                      std::string(ToString(precision)));
  }
}

// Gradients overflow with the first loss scales: the output projection is a few hundred times
// larger than usual. The first stop comes while the scale is still on its way down.
TEST_F(ExactResumeTest, TheLossScaleAndTheSkippedStepsOfFp16GoOnToo) {
  const spec::ModelSpec model = ModelNamed("llama", ConformancePlans());
  engine::WriteWeightsCheckpoint(
      folder_.Path("wild"), model, "",
      [](const engine::CheckpointParameter& parameter, std::span<float> elements) {
        const auto key = base::MakePhiloxKey(3, parameter.name);
        const double size = parameter.name == "output.weight" ? 10 : 0.04;
        for (size_t i = 0; i < elements.size(); ++i) {
          const double value = size * (base::UniformAt(key, i) - 0.5);
          elements[i] = parameter.shape.size() == 1 ? 1.0F : static_cast<float>(value);
        }
      });
  engine::TrainOptions options =
      Options(model, {.data_parallel_size = 2, .zero_stage = 1}, spec::Precision::kFp16);
  options.plan.training.steps = 12;
  options.init_checkpoint_dir = folder_.Path("wild");
  engine::TrainOptions whole = options;
  whole.save_interval = 1;
  const Rows expected = Train(whole, "whole");
  int64_t num_skipped = 0;
  for (const auto& [step, row] : expected) num_skipped += row.skipped ? 1 : 0;
  ASSERT_GT(num_skipped, 1);
  ASSERT_LT(num_skipped, 11);
  ASSERT_FALSE(expected.at(12).skipped);
  engine::TrainOptions resumed = options;
  resumed.init_checkpoint_dir = "";
  for (const int64_t stop : {int64_t{1}, num_skipped, num_skipped + 1}) {
    resumed.resume_dir = CheckpointAt("whole", stop);
    const std::string name = base::Concat("resumed", stop);
    const Rows rows = Train(resumed, name);
    ASSERT_EQ(rows.size(), static_cast<size_t>(12 - stop));
    for (const auto& [step, row] : rows) EXPECT_EQ(row, expected.at(step)) << step;
    EXPECT_EQ(StateOf(name, 12), StateOf("whole", 12)) << stop;
  }
  EXPECT_EQ(CheckpointReader(CheckpointAt("whole", 12)).manifest().progress.num_skipped_steps,
            num_skipped);
}

TEST_F(ExactResumeTest, AnotherLayoutGoesOnWithinRounding) {
  ExpectResumeUnder(ModelNamed("gpt", ConformancePlans()),
                    {.tensor_parallel_size = 2, .pipeline_parallel_size = 2},
                    {{},
                     {.data_parallel_size = 4, .zero_stage = 3},
                     {.tensor_parallel_size = 4, .sequence_parallel = true},
                     {.pipeline_parallel_size = 4, .data_parallel_size = 2, .zero_stage = 1}});
}

TEST_F(ExactResumeTest, ExpertsGoOnOverFewerRanks) {
  const std::vector<NamedPlan> plans = ExpertPlans();
  spec::ModelSpec model = plans.front().plan.model;
  model.moe->forced_uniform_routing = false;
  model.moe->capacity_factor = 0;
  ExpectResumeUnder(model, {.data_parallel_size = 4, .expert_parallel_size = 4},
                    {{}, {.data_parallel_size = 2, .expert_parallel_size = 2}});
}

}  // namespace
}  // namespace tessera::testing
