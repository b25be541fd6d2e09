// Samples of several documents: with positions and attention that start anew with each they train
// as the documents apart, in every layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/train/rank_trainer.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/expert_plans.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/trained_model.h"

namespace tessera::testing {
namespace {

using spec::ContextKind;
using spec::ParallelSpec;
using spec::Recompute;
using spec::ScheduleKind;

constexpr int32_t kEnd = 50;  // of a document: below the vocabularies of both models
using Tokens = std::vector<int32_t>;

// Samples that are written down, again and again.
class WrittenSource : public engine::SampleSource {
 public:
  // Each of one token more than the sequence, the last label.
  explicit WrittenSource(std::vector<Tokens> samples) : samples_(std::move(samples)) {}
  void Read(int64_t sample, int32_t* tokens) const override {
    std::ranges::copy(samples_.at(static_cast<size_t>(sample) % samples_.size()), tokens);
  }
  int64_t sequence_length() const override {
    return static_cast<int64_t>(samples_.front().size()) - 1;
  }
  int64_t num_samples() const override { return 1000; }
  int32_t max_token() const override { return kEnd; }

 private:
  std::vector<Tokens> samples_;
};

// Samples of 16 tokens in which kEnd stands at the given places.
WrittenSource SamplesWithEnds(const std::vector<Tokens>& ends_by_sample) {
  std::vector<Tokens> samples;
  for (const Tokens& ends : ends_by_sample) {
    Tokens sample;
    for (int32_t i = 0; i <= 16; ++i) {
      sample.push_back((static_cast<int32_t>(samples.size()) * 31 + i * i + i * 7) % kEnd);
    }
    for (const int32_t end : ends) sample[static_cast<size_t>(end)] = kEnd;
    samples.push_back(sample);
  }
  return WrittenSource(samples);
}

TrainedModel Train(const spec::Plan& plan, const engine::SampleSource& source) {
  EXPECT_TRUE(FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).empty());
  engine::ModelRecorder recorder;
  RunRanks(plan.num_devices, [&](engine::Communicator& world) {
    const auto device = engine::MakeRankDevice({}, world);
    engine::RankTrainer trainer(plan, *device, world, source);
    for (int64_t step = 1; step <= plan.training.steps; ++step) {
      recorder.Record(trainer, device->backend(), world.rank(), trainer.Step(false),
                      step == plan.training.steps);
    }
  });
  return recorder.trained();
}

class DocumentTrainingTest : public ::testing::TestWithParam<spec::ModelSpec> {
 protected:
  static spec::Plan PlanOf(const ParallelSpec& parallel) {
    spec::Plan plan{.model = GetParam(), .parallel = parallel, .threads_per_rank = 1};
    plan.training = {.global_batch_size = 8,
                     .sequence_length = 16,
                     .steps = 3,
                     .precision = spec::Precision::kFp32,
                     .eod_token = kEnd,
                     .reset_position_ids = true,
                     .reset_attention_mask = true,
                     // Else updates are made of the rounding of gradients that are zero.
                     .optimizer = {.lr = 2e-3, .adam_eps = 1e-3}};
    plan.num_devices = spec::WorldSize(parallel);
    return plan;
  }

  static void ExpectNear(const GlobalTensors& actual, const GlobalTensors& expected,
                         double tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        ASSERT_NEAR(actual.at(name).values.at(i), tensor.values[i], tolerance) << name << " " << i;
      }
    }
  }
};

// A document of six tokens and one of ten in one sample, against a sample for each, the first
// filled up with ends of documents, which the loss leaves out: 5 + 10 tokens count.
TEST_P(DocumentTrainingTest, APackedSampleTrainsAsItsDocumentsApart) {
  const Tokens first = {3, 14, 15, 9, 26, kEnd};
  const Tokens second = {5, 35, 8, 9, 7, 9, 32, 38, 4, 6, 26};  // with its last label
  Tokens packed = first;
  packed.insert(packed.end(), second.begin(), second.end());
  Tokens filled_up = first;
  filled_up.resize(second.size(), kEnd);

  spec::Plan plan = PlanOf({});
  plan.training.eod_mask_loss = true;
  plan.training.global_batch_size = 1;
  const TrainedModel together = Train(plan, WrittenSource({packed}));
  spec::Plan apart_plan = plan;
  apart_plan.training.reset_position_ids = apart_plan.training.reset_attention_mask = false;
  apart_plan.training.global_batch_size = 2;
  apart_plan.training.sequence_length = 10;
  const TrainedModel apart = Train(apart_plan, WrittenSource({filled_up, second}));
  for (size_t step = 0; step < apart.losses.size(); ++step) {
    EXPECT_NEAR(together.losses.at(step), apart.losses[step], 2e-6) << "step " << step + 1;
  }
  // Elements are of the order of 0.1, sums of a few hundred terms in fp32.
  ExpectNear(together.first_gradients, apart.first_gradients, 2e-6);

  // Without either option the loss is another; but rotary positions tell distances alone, which are
  // the same within a document wherever it begins.
  const auto loss_without = [&](bool spec::TrainingSpec::*option) {
    spec::Plan without = plan;
    without.training.*option = false;
    return Train(without, WrittenSource({packed})).losses.front();
  };
  EXPECT_GT(std::abs(loss_without(&spec::TrainingSpec::reset_attention_mask) - apart.losses[0]),
            1e-4);
  const double counted_through = loss_without(&spec::TrainingSpec::reset_position_ids);
  if (GetParam().position == spec::PositionKind::kRope) {
    EXPECT_NEAR(counted_through, apart.losses[0], 2e-6);
  } else {
    EXPECT_GT(std::abs(counted_through - apart.losses[0]), 1e-4);
  }
}

TEST_P(DocumentTrainingTest, EveryLayoutKeepsDocumentsApart) {
  const WrittenSource source = SamplesWithEnds(
      {{4, 5, 11}, {}, {7}, {3, 8, 15}, {0, 1, 2}, {12}, {6, 7, 14}, {1, 3, 5, 7, 9, 11, 13}});
  const TrainedModel expected = Train(PlanOf({}), source);
  for (const ParallelSpec& parallel : {
           ParallelSpec{.tensor_parallel_size = 2},
           {.tensor_parallel_size = 2, .sequence_parallel = true},
           {.pipeline_parallel_size = 2},
           {.pipeline_parallel_size = 4, .schedule = ScheduleKind::kZeroBubbleH1},
           {.pipeline_parallel_size = 2,
           .virtual_pipeline_size = 2,
           .schedule = ScheduleKind::kInterleaved},
           {.data_parallel_size = 2, .micro_batch_size = 4},
           {.micro_batch_size = 2, .recompute = Recompute::kFull},
           {.recompute = Recompute::kSelective, .attention = spec::AttentionKind::kUnfused},
           {.context_parallel_size = 2, .micro_batch_size = 2, .context_kind = ContextKind::kRing},
           {.context_parallel_size = 4, .context_kind = ContextKind::kRing},
           {.context_parallel_size = 2, .context_kind = ContextKind::kAllGather},
           {.context_parallel_size = 4,
           .micro_batch_size = 2,
           .recompute = Recompute::kSelective,
           .context_kind = ContextKind::kAllGather},
           {.context_parallel_size = 2,
           .micro_batch_size = 2,
           .context_kind = ContextKind::kAllToAll},
           {.tensor_parallel_size = 2,
           .pipeline_parallel_size = 2,
           .context_parallel_size = 2,
           .sequence_parallel = true,
           .recompute = Recompute::kFull,
           .context_kind = ContextKind::kRing},
       }) {
    SCOPED_TRACE(base::Concat("tp ", parallel.tensor_parallel_size, " pp ",
                              parallel.pipeline_parallel_size, " dp ", parallel.data_parallel_size,
                              " cp ", parallel.context_parallel_size, " ",
                              ToString(parallel.context_kind)));
    const TrainedModel actual = Train(PlanOf(parallel), source);
    // fp32 sums in another order: see layout_cover_test.
    for (size_t step = 0; step < expected.losses.size(); ++step) {
      EXPECT_NEAR(actual.losses.at(step) / expected.losses[step], 1, 2e-5) << "step " << step + 1;
      EXPECT_NEAR(actual.grad_norms.at(step) / expected.grad_norms[step], 1, 2e-5)
          << "step " << step + 1;
    }
    ExpectNear(actual.first_gradients, expected.first_gradients, 2e-5);
  }
}

TEST_P(DocumentTrainingTest, SamplesOfOneDocumentTrainAsWithoutTheOptionsToTheBit) {
  const WrittenSource source = SamplesWithEnds({{}, {15}, {}, {}});
  for (const ParallelSpec& parallel :
       {ParallelSpec{.micro_batch_size = 2},
        {.attention = spec::AttentionKind::kUnfused},
        {.context_parallel_size = 2, .context_kind = ContextKind::kRing},
        {.tensor_parallel_size = 2, .micro_batch_size = 2, .sequence_parallel = true}}) {
    spec::Plan plan = PlanOf(parallel);
    const TrainedModel with = Train(plan, source);
    plan.training.reset_position_ids = plan.training.reset_attention_mask = false;
    const TrainedModel without = Train(plan, source);
    EXPECT_EQ(with.losses, without.losses);
    EXPECT_EQ(with.grad_norms, without.grad_norms);
    for (const auto& [name, tensor] : without.weights) {
      EXPECT_EQ(with.weights.at(name).values, tensor.values) << name;
    }
  }
}

// Of all tokens, whatever the loss leaves out: with or without its mask they add the same to every
// gradient.
TEST(DocumentExpertsTest, LossesOfRoutersDoNotDependOnTheMask) {
  const WrittenSource source = SamplesWithEnds({{1, 2, 3, 4}, {8}});
  const auto gradients = [&](bool is_masked, double coefficient) {
    spec::Plan plan = ExpertPlans().front().plan;
    plan.parallel = {};
    plan.num_devices = 1;
    plan.model.moe->auxiliary_loss_coefficient = coefficient;
    plan.model.moe->z_loss_coefficient = coefficient;
    plan.training = {.global_batch_size = 2,
                     .sequence_length = 16,
                     .steps = 1,
                     .precision = spec::Precision::kFp32,
                     .eod_token = kEnd,
                     .eod_mask_loss = is_masked};
    return Train(plan, source).first_gradients;
  };
  const GlobalTensors with_mask = gradients(true, 1), with_mask_alone = gradients(true, 0);
  const GlobalTensors without = gradients(false, 1), without_alone = gradients(false, 0);
  double largest = 0;
  for (const auto& [name, tensor] : without) {
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      const float expected = tensor.values[i] - without_alone.at(name).values[i];
      largest = std::max(largest, std::abs(double{expected}));
      ASSERT_NEAR(with_mask.at(name).values[i] - with_mask_alone.at(name).values[i], expected, 2e-6)
          << name << " " << i;
    }
  }
  EXPECT_GT(largest, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, DocumentTrainingTest, ::testing::ValuesIn(GptAndLlama()),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace tessera::testing
