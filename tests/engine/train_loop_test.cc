// The loop around the steps: batches that grow, validation, weight decay by groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/data/indexed_dataset_writer.h"
#include "engine/train/train_job.h"
#include "tests/engine/data_test_files.h"
#include "tests/engine/small_training.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using test::FlatWeights;
using test::SmallPlan;
using ::testing::HasSubstr;

std::vector<spec::ParallelSpec> LoopLayouts() {
  return {{.tensor_parallel_size = 2, .pipeline_parallel_size = 2, .data_parallel_size = 2},
          {.data_parallel_size = 2, .zero_stage = 3},
          {.pipeline_parallel_size = 2,
           .virtual_pipeline_size = 2,
           .schedule = spec::ScheduleKind::kInterleaved,
           .overlap_pp_comm = true},
          {.tensor_parallel_size = 2,
           .context_parallel_size = 2,
           .sequence_parallel = true,
           .recompute = spec::Recompute::kFull},
          {.pipeline_parallel_size = 2, .schedule = spec::ScheduleKind::kZeroBubbleH1},
          {.pipeline_parallel_size = 2,
           .data_parallel_size = 2,
           .zero_stage = 2,
           .overlap_param_gather = true,
           .scatter_gather_transfers = false}};
}

std::string Describe(const spec::ParallelSpec& parallel) {
  return base::Concat("tp ", parallel.tensor_parallel_size, " pp ", parallel.pipeline_parallel_size,
                      " dp ", parallel.data_parallel_size, " cp ", parallel.context_parallel_size,
                      " zero ", parallel.zero_stage);
}

class TrainLoopTest : public ::testing::Test {
 protected:
  TrainOptions Options(const spec::ParallelSpec& parallel) const {
    return {.plan = SmallPlan(parallel),
            .data_path = folder_.Write("data.u8", Text(1000)),
            .data_order = DataOrder::kSequential,
            .timeout_s = testing::kTestTimeoutSeconds};
  }
  static std::string Text(int size) {
    std::string text;
    for (int i = 0; i < size; ++i) text += static_cast<char>('a' + i * i % 23);
    return text;
  }
  std::vector<StepRow> Run(const TrainOptions& options) const {
    std::vector<StepRow> rows;
    const TrainCallbacks callbacks{.on_step = [&](const StepRow& row) { rows.push_back(row); }};
    report_ = RunTraining(options, callbacks, stop_);
    return rows;
  }

  test::TestFolder folder_;
  const std::atomic<bool> stop_ = false;
  mutable TrainReport report_;
};

// From 4 to 8 after 12 samples: three steps of 4, then of 8.
TrainOptions Ramped(TrainOptions options) {
  options.plan.training.global_batch_size = 8;
  options.plan.training.steps = 6;
  options.plan.training.batch_ramp =
      spec::BatchRamp{.start_batch_size = 4, .increment = 4, .samples = 12};
  return options;
}

TEST_F(TrainLoopTest, ARampOfTheBatchTrainsAsRunsOfItsBatchesOneAfterTheOther) {
  TrainOptions ramped = Ramped(Options({.data_parallel_size = 2}));
  ramped.plan.training.optimizer.lr_decay_style = spec::LrDecayStyle::kConstant;
  const std::vector<StepRow> rows = Run(ramped);

  TrainOptions small = ramped;
  small.plan.training.batch_ramp.reset();
  small.plan.training.global_batch_size = 4;
  small.plan.training.steps = 3;
  small.save_dir = folder_.Path("small");
  std::vector<StepRow> expected = Run(small);
  TrainOptions large = small;
  large.plan.training.global_batch_size = 8;
  large.plan.training.steps = 6;
  large.resume_dir = small.save_dir;
  for (const StepRow& row : Run(large)) expected.push_back(row);

  ASSERT_EQ(rows.size(), 6U);
  ASSERT_EQ(expected.size(), 6U);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].result.batch_size, i < 3 ? 4 : 8) << i;
    EXPECT_EQ(rows[i].result.consumed_samples, expected[i].result.consumed_samples) << i;
    EXPECT_EQ(rows[i].consumed_tokens, expected[i].consumed_tokens) << i;
    EXPECT_EQ(rows[i].result.loss, expected[i].result.loss) << i;
    EXPECT_EQ(rows[i].result.grad_norm, expected[i].result.grad_norm) << i;
  }
}

// In halves of a whole batch, then whole ones: warm-up until 3 whole batches, then a line to 0 at
// the end, 4.5 of them.
TEST_F(TrainLoopTest, TheLearningRateOfARampGoesByItsSamples) {
  TrainOptions options = Ramped(Options({}));
  options.plan.training.optimizer = {
      .lr = 0.03, .lr_warmup_steps = 3, .lr_decay_style = spec::LrDecayStyle::kLinear};
  const std::vector<StepRow> rows = Run(options);
  const std::vector<double> expected = {0.005, 0.01, 0.015, 0.025, 0.03 * 1 / 1.5, 0};
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(rows[i].result.lr, expected[i], 1e-12) << i;
  }
}

TEST_F(TrainLoopTest, ARampTrainsAlikeInEveryLayout) {
  const std::vector<StepRow> expected = Run(Ramped(Options({})));
  for (const spec::ParallelSpec& layout : LoopLayouts()) {
    SCOPED_TRACE(Describe(layout));
    const std::vector<StepRow> rows = Run(Ramped(Options(layout)));
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].result.consumed_samples, expected[i].result.consumed_samples);
      EXPECT_NEAR(rows[i].result.loss, expected[i].result.loss, 2e-5) << i;
    }
  }
}

TEST_F(TrainLoopTest, ARunResumedWithinARampGoesOnAsIfItHadNotStopped) {
  TrainOptions options = Ramped(Options({.data_parallel_size = 2}));
  options.save_dir = folder_.Path("saved");
  options.save_interval = 2;
  const std::vector<StepRow> expected = Run(options);
  TrainOptions resumed = options;
  resumed.save_dir.clear();
  resumed.save_interval = 0;
  resumed.resume_dir = folder_.Path("saved/step_00000002");
  const std::vector<StepRow> rows = Run(resumed);
  ASSERT_EQ(rows.size(), 4U);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].result.batch_size, expected[i + 2].result.batch_size) << i;
    EXPECT_EQ(rows[i].result.lr, expected[i + 2].result.lr) << i;
    EXPECT_EQ(rows[i].result.loss, expected[i + 2].result.loss) << i;
  }
}

TEST_F(TrainLoopTest, ARampWhoseBatchesDoNotDivideIsRefused) {
  TrainOptions options = Ramped(Options({.data_parallel_size = 2}));
  options.plan.parallel.micro_batch_size = 4;
  try {
    Run(options);
    FAIL() << "not refused";
  } catch (const base::InfeasibleError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the batch of 4 samples"));
  }
}

// Data of one global batch: every step trains on the same samples, so its loss is the validation
// loss after the step before.
TEST_F(TrainLoopTest, ValidationLossIsWhatTheNextStepFindsOnTheSameSamples) {
  std::vector<spec::ParallelSpec> layouts = LoopLayouts();
  layouts.insert(layouts.begin(), spec::ParallelSpec{});
  for (const spec::ParallelSpec& layout : layouts) {
    SCOPED_TRACE(Describe(layout));
    TrainOptions options = Options(layout);
    options.data_path = folder_.Write("batch.u8", Text(4 * 8 + 1));
    options.validation = {.data_path = options.data_path, .interval = 1, .num_samples = 4};
    const std::vector<StepRow> rows = Run(options);
    for (size_t i = 0; i + 1 < rows.size(); ++i) {
      ASSERT_TRUE(rows[i].validation_loss.has_value()) << i;
      EXPECT_NEAR(*rows[i].validation_loss, rows[i + 1].result.loss, 1e-12) << i;
    }
    EXPECT_EQ(report_.last_validation_loss, rows.back().validation_loss);
  }
}

TEST_F(TrainLoopTest, ValidationChangesNeitherTrainingNorMemory) {
  for (const spec::ParallelSpec& layout : LoopLayouts()) {
    SCOPED_TRACE(Describe(layout));
    TrainOptions options = Options(layout);
    const std::vector<StepRow> expected = Run(options);
    const TrainReport plain = report_;
    // More at a time than a step has.
    options.validation = {
        .data_path = folder_.Write("held_out.u8", Text(200)), .interval = 2, .num_samples = 24};
    const std::vector<StepRow> rows = Run(options);
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].result.loss, expected[i].result.loss) << i;
      EXPECT_EQ(rows[i].result.grad_norm, expected[i].result.grad_norm) << i;
      EXPECT_EQ(rows[i].validation_loss.has_value(), i % 2 == 1) << i;
    }
    for (size_t rank = 0; rank < plain.ranks.size(); ++rank) {
      const spec::StageMemory& memory = report_.ranks[rank].memory;
      EXPECT_EQ(memory.activations_bytes, plain.ranks[rank].memory.activations_bytes) << rank;
      EXPECT_EQ(memory.buffers_bytes, plain.ranks[rank].memory.buffers_bytes) << rank;
    }
  }
}

// Data in which 'b' ends documents. What is predicted from it is masked: the loss is the mean over
// the rest of the whole batch, so it and its gradient do not depend on which rank has how many.
TEST_F(TrainLoopTest, ALossThatMasksEndsOfDocumentsIsTheSameInEveryLayout) {
  const auto masked = [&](const spec::ParallelSpec& parallel) {
    TrainOptions options = Options(parallel);
    options.data_path =
        folder_.Write("documents.u8", "acbcc" + Text(100) + "bbbabbbbcab" + Text(90));
    options.plan.training.eod_token = 'b';
    options.plan.training.eod_mask_loss = true;
    options.validation = {.data_path = options.data_path, .interval = 1, .num_samples = 8};
    return options;
  };
  TrainOptions plain = masked({});
  plain.plan.training.eod_mask_loss = false;
  const double unmasked = Run(plain).front().result.loss;
  const std::vector<StepRow> expected = Run(masked({}));
  EXPECT_GT(std::abs(expected.front().result.loss - unmasked), 1e-4);
  for (const spec::ParallelSpec& layout : LoopLayouts()) {
    SCOPED_TRACE(Describe(layout));
    const std::vector<StepRow> rows = Run(masked(layout));
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_NEAR(rows[i].result.loss, expected[i].result.loss, 2e-5) << i;
      EXPECT_NEAR(rows[i].result.grad_norm, expected[i].result.grad_norm, 2e-4) << i;
      EXPECT_NEAR(*rows[i].validation_loss, *expected[i].validation_loss, 2e-5) << i;
    }
  }
}

// A sample of nothing but ends, and three without any: the step is one over these three.
TEST_F(TrainLoopTest, WhatIsMaskedCountsNeitherInTheLossNorInItsMean) {
  std::string text = Text(3 * 8 + 1);
  std::ranges::replace(text, 'b', 'z');
  TrainOptions masked = Options({});
  masked.data_path = folder_.Write("masked.u8", "bbbbbbbb" + text);
  masked.plan.training.eod_token = 'b';
  masked.plan.training.eod_mask_loss = true;
  TrainOptions plain = Options({});
  plain.data_path = folder_.Write("plain.u8", text);
  plain.plan.training.global_batch_size = 3;
  const StepResult found = Run(masked).front().result;
  const StepResult expected = Run(plain).front().result;
  EXPECT_NEAR(found.loss, expected.loss, 1e-6);
  EXPECT_NEAR(found.grad_norm, expected.grad_norm, 1e-6);
}

// Of four documents the last two are for validation: the loss over them is that over a file of
// them alone.
TEST_F(TrainLoopTest, TheSecondShareOfASplitIsValidatedOn) {
  const std::string text = Text(160);
  IndexedDatasetWriter writer(folder_.Path("documents"), TokenType::kUInt8);
  for (size_t begin = 0; begin < text.size(); begin += 40) {
    writer.AddTokens(std::vector<int32_t>(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                          text.begin() + static_cast<std::ptrdiff_t>(begin) + 40));
    writer.EndSequence();
    writer.EndDocument();
  }
  writer.Finish();
  TrainOptions split = Options({});
  split.data_path = folder_.Path("documents");
  split.data_split = DataSplitFromString("1,1");
  TrainOptions file = split;
  split.validation.num_samples = 8;
  file.data_format = DataFormat::kAuto;
  file.validation = {.data_path = folder_.Write("rest.u8", text.substr(80)), .num_samples = 8};
  const std::optional<double> found = Run(split).back().validation_loss;
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found, Run(file).back().validation_loss);
  split.data_split = {};
  EXPECT_THROW(Run(split), base::ConfigError);
}

TEST_F(TrainLoopTest, ValidationOfWhatDoesNotDivideOrIsNotThereIsRefused) {
  TrainOptions options = Options({.data_parallel_size = 2});
  options.validation = {.data_path = folder_.Write("held_out.u8", Text(200)), .num_samples = 3};
  const auto error_of = [&] {
    try {
      Run(options);
    } catch (const base::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(error_of(), HasSubstr("--eval-samples: found 3, expected a multiple of"));
  options.validation.num_samples = 26;  // of 200 bytes 24 samples
  EXPECT_THAT(error_of(), HasSubstr("found 24 samples, expected at least the 26"));
}

FlatWeights AfterAStepOf(const spec::OptimizerSpec& optimizer) {
  spec::Plan plan = SmallPlan({});
  plan.model.mlp_bias = true;
  plan.training.optimizer = optimizer;
  return test::WeightsAfterSteps(plan, 1);
}

TEST(WeightDecayGroupsTest, BiasesAndNormsHaveNoneAndEmbeddingsIfTheyAreToldSo) {
  const spec::OptimizerSpec none = {.lr = 0.01, .weight_decay = 0};
  spec::OptimizerSpec all = none;
  all.weight_decay = 0.5;
  spec::OptimizerSpec matrices = all;
  matrices.decay_embeddings = false;
  const FlatWeights plain = AfterAStepOf(none);
  const FlatWeights decayed = AfterAStepOf(all);
  const FlatWeights partly = AfterAStepOf(matrices);
  const std::vector<spec::ParameterSpec>& parameters = plain.parameters;
  int num_vectors = 0, num_embeddings = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto begin = static_cast<std::ptrdiff_t>(plain.layout.parameters[i].offset);
    const auto end = begin + static_cast<std::ptrdiff_t>(plain.layout.parameters[i].num_elements);
    const auto same = [&](const FlatWeights& weights) {
      return std::equal(plain.values.begin() + begin, plain.values.begin() + end,
                        weights.values.begin() + begin);
    };
    const bool is_vector = parameters[i].global_shape.size() == 1;
    const bool is_embedding = parameters[i].name.rfind("embedding.", 0) == 0;
    EXPECT_EQ(same(decayed), is_vector) << parameters[i].name;
    EXPECT_EQ(same(partly), is_vector || is_embedding) << parameters[i].name;
    num_vectors += is_vector ? 1 : 0;
    num_embeddings += is_embedding ? 1 : 0;
  }
  EXPECT_GT(num_vectors, 4);
  EXPECT_EQ(num_embeddings, 2);
}

// All sums have an order that no number of threads changes.
TEST(DeterminismTest, RunsGiveTheSameBitsWithAnyNumberOfThreads) {
  spec::Plan plan = SmallPlan({});
  plan.model.hidden_size = 64;  // enough for several threads to share
  plan.model.head_dim = 32;
  plan.model.ffn_hidden_size = 256;
  const FlatWeights expected = test::WeightsAfterSteps(plan, 3);
  for (const int threads : {1, 2, 3}) {
    plan.threads_per_rank = threads;
    EXPECT_EQ(test::WeightsAfterSteps(plan, 3).values, expected.values) << threads;
  }
}

}  // namespace
}  // namespace tessera::engine
