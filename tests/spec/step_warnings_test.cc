#include "cost_model/spec/step_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cost_model/spec/spec_json.h"

namespace tessera::spec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StepWarningsTest : public ::testing::Test {
 protected:
  StepWarningsTest() {
    training_.global_batch_size = 64;
    training_.sequence_length = 2048;
    report_.step_time_s = 10;
    report_.mfu = 0.5;
    report_.time.forward_s = 10;
  }

  // The only warning; an empty one where there is none or more.
  StepWarning Only() const {
    const auto warnings = FindStepWarnings(model_, cluster_, training_, parallel_, report_);
    EXPECT_EQ(warnings.size(), 1U);
    return warnings.size() == 1 ? warnings.front() : StepWarning{};
  }
  auto All() const { return FindStepWarnings(model_, cluster_, training_, parallel_, report_); }

  const ModelSpec model_ = LoadModel("gpt3-13b");
  ClusterSpec cluster_ = LoadCluster("dgx-a100-80gb");
  TrainingSpec training_;
  ParallelSpec parallel_;
  StepReport report_;
};

TEST_F(StepWarningsTest, ASoundStepHasNone) { EXPECT_THAT(All(), IsEmpty()); }

TEST_F(StepWarningsTest, TensorGroupsThatLeaveTheirNodeAreNamedWithTheSlowerLink) {
  parallel_.tensor_parallel_size = 8;
  EXPECT_THAT(All(), IsEmpty());  // a node has eight devices
  parallel_.tensor_parallel_size = 16;
  const StepWarning warning = Only();
  EXPECT_EQ(warning.kind, WarningKind::kTensorAcrossNodes);
  EXPECT_THAT(warning.what, HasSubstr("groups of 16 reach over 2 nodes"));
  EXPECT_THAT(warning.remedy, HasSubstr("8 devices of a node"));
  // Not only by size: with data ranks innermost no tensor group lies within a node.
  parallel_.tensor_parallel_size = 2;
  parallel_.data_parallel_size = 8;
  parallel_.rank_order = "dp-tp-cp-ep-pp";
  EXPECT_THAT(Only().what, HasSubstr("groups of 2 reach over 2 nodes"));
}

TEST_F(StepWarningsTest, UnevenStagesMatterWhereADeviceIsCrowded) {
  parallel_.pipeline_parallel_size = 2;
  report_.stages = {{.weights_bytes = int64_t{10} << 30, .activations_bytes = int64_t{50} << 30},
                    {.weights_bytes = int64_t{10} << 30, .activations_bytes = int64_t{20} << 30}};
  const StepWarning warning = Only();
  EXPECT_EQ(warning.kind, WarningKind::kUnevenMemory);
  EXPECT_DOUBLE_EQ(warning.share, 2.0);  // 60 over 30 GiB
  EXPECT_THAT(warning.what, HasSubstr("stage 0 holds 2.0 times the memory of stage 1"));
  EXPECT_THAT(warning.remedy, HasSubstr("recompute layers of stage 0"));
  for (StageMemory& stage : report_.stages) stage.activations_bytes /= 10;
  EXPECT_THAT(All(), IsEmpty());  // just as uneven, but there is room
}

TEST_F(StepWarningsTest, ProductsThatLeaveMostOfTheDeviceIdleAreNamed) {
  training_.sequence_length = 128;
  report_.mfu = 0.1;
  parallel_.tensor_parallel_size = 8;
  // The widest product of a rank is 128 x (4 * 5120 / 8): 20 tiles of 128 x 128 for 108 units.
  const StepWarning warning = Only();
  EXPECT_EQ(warning.kind, WarningKind::kSmallShapes);
  EXPECT_NEAR(warning.share, 20.0 / 108, 1e-12);
  EXPECT_THAT(warning.what, AllOf(HasSubstr("128 x 2560 x 5120"), HasSubstr("10 % of the peak")));
  EXPECT_THAT(warning.remedy, AllOf(HasSubstr("micro-batch"), HasSubstr("tensor-parallel")));
  report_.mfu = 0.45;  // a step that does well has no such problem
  EXPECT_THAT(All(), IsEmpty());
  report_.mfu = 0.1;
  training_.sequence_length = 2048;  // 320 tiles
  EXPECT_THAT(All(), IsEmpty());
}

TEST_F(StepWarningsTest, OfATableOfEfficienciesSmallIsWhatItSays) {
  cluster_.device.kernels.reset();
  report_.mfu = 0.1;
  // The widest product has 2 * 2048 * 20480 * 5120 = 4.3e11 FLOPs.
  cluster_.device.matmul_efficiency = {{1e11, 0.2}, {1e13, 0.8}};
  const double at = 0.2 + (std::log(2.0 * 2048 * 20480 * 5120 / 1e11) / std::log(100.0)) * 0.6;
  EXPECT_NEAR(Only().share, at / 0.8, 1e-9);
  cluster_.device.matmul_efficiency = {{1e11, 0.7}, {1e13, 0.8}};
  EXPECT_THAT(All(), IsEmpty());
}

TEST_F(StepWarningsTest, CommunicationThatNothingHidesIsToldWithItsLargestPart) {
  report_.time.tp_comm_s = 0.9;
  report_.time.dp_comm_s = 1.0;
  EXPECT_THAT(All(), IsEmpty());  // 19 % of the step
  report_.time.dp_comm_s = 2.1;
  const StepWarning warning = Only();
  EXPECT_EQ(warning.kind, WarningKind::kExposedCommunication);
  EXPECT_DOUBLE_EQ(warning.share, 0.3);
  EXPECT_THAT(warning.what, AllOf(HasSubstr("30 % of the step"), HasSubstr("data-parallel"),
                                  HasSubstr("(21 %)")));
  EXPECT_THAT(warning.remedy, HasSubstr("global batch"));
}

TEST_F(StepWarningsTest, BubblesAreToldWithMicrobatchesAndStages) {
  parallel_.pipeline_parallel_size = 8;
  parallel_.micro_batch_size = 4;
  report_.time.bubble_s = 1.9;
  EXPECT_THAT(All(), IsEmpty());
  report_.time.bubble_s = 3;
  const StepWarning warning = Only();
  EXPECT_EQ(warning.kind, WarningKind::kBubble);
  EXPECT_THAT(warning.what,
              AllOf(HasSubstr("30 % of the step"), HasSubstr("16 micro-batches for 8 stages")));
  EXPECT_THAT(warning.remedy, HasSubstr("interleaved"));
}

TEST_F(StepWarningsTest, TextHoldsWhatAndHow) {
  EXPECT_EQ(ToString({WarningKind::kBubble, "what", "remedy", 1}), "what; to change it: remedy");
}

}  // namespace
}  // namespace tessera::spec
