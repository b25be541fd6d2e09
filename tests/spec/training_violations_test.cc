#include "cost_model/spec/training_violations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/spec/checked_layout.h"

namespace tessera::spec {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;

TEST(TrainingViolationsTest, EveryBatchOfARampMustDivide) {
  CheckedLayout layout;
  layout.parallel = {.data_parallel_size = 2, .micro_batch_size = 2};
  layout.training.batch_ramp = BatchRamp{.start_batch_size = 4, .increment = 4, .samples = 100};
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.training.batch_ramp = BatchRamp{.start_batch_size = 6, .increment = 2, .samples = 100};
  EXPECT_THAT(layout.Find(),
              Contains(AllOf(Field(&Violation::constraint, "ramp % (micro batch * dp)"),
                             Field(&Violation::needed, 4), Field(&Violation::available, 6))));
  layout.training.batch_ramp = BatchRamp{.start_batch_size = 4, .increment = 2, .samples = 100};
  EXPECT_THAT(layout.Find(),
              Contains(AllOf(Field(&Violation::constraint, "ramp % (micro batch * dp)"),
                             Field(&Violation::available, 6))));
}

TEST(TrainingViolationsTest, ARampMustComeToTheGlobalBatch) {
  CheckedLayout layout;
  layout.training.batch_ramp = BatchRamp{.start_batch_size = 4, .increment = 5, .samples = 100};
  EXPECT_THAT(layout.Find(), Breaks("ramp % increment"));
  layout.training.batch_ramp = BatchRamp{.start_batch_size = 20, .increment = 4, .samples = 100};
  EXPECT_THAT(layout.Find(), Breaks("ramp in range"));
  layout.training.batch_ramp = BatchRamp{.start_batch_size = 16, .increment = 4, .samples = 100};
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(TrainingViolationsTest, EveryBatchOfARampMustFormTheGroupsOfAnInterleavedSchedule) {
  CheckedLayout layout;
  layout.parallel = {.pipeline_parallel_size = 2,
                     .virtual_pipeline_size = 2,
                     .schedule = ScheduleKind::kInterleaved};
  layout.training.batch_ramp = BatchRamp{.start_batch_size = 4, .increment = 2, .samples = 100};
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.training.batch_ramp = BatchRamp{.start_batch_size = 4, .increment = 1, .samples = 100};
  EXPECT_THAT(layout.Find(), Contains(AllOf(Field(&Violation::constraint, "ramp in groups"),
                                            Field(&Violation::available, 5))));
}

TEST(TrainingViolationsTest, AMaskBehindDocumentsNeedsTheTokenThatEndsThem) {
  CheckedLayout layout;
  layout.training.eod_mask_loss = true;
  EXPECT_THAT(layout.Find(), Breaks("eod token"));
  layout.training.eod_token = 99;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.training.eod_token = 100;
  EXPECT_THAT(layout.Find(), Breaks("eod token"));
}

TEST(TrainingViolationsTest, AWsdScheduleMustHaveADecayWithinItsSteps) {
  CheckedLayout layout;
  OptimizerSpec& optimizer = layout.training.optimizer;
  optimizer.lr_decay_style = LrDecayStyle::kWsd;
  EXPECT_THAT(layout.Find(), Breaks("wsd decay steps"));
  optimizer.lr_wsd_decay_steps = 20;
  EXPECT_THAT(layout.Find(), IsEmpty());
  optimizer.lr_decay_steps = 19;
  EXPECT_THAT(layout.Find(), Breaks("wsd decay steps"));
  optimizer = {.lr = 0.1, .lr_warmup_init = 0.2};
  EXPECT_THAT(layout.Find(), Breaks("warm-up rises"));
}

}  // namespace
}  // namespace tessera::spec
