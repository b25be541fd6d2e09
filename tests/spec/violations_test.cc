#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cost_model/spec/parallel_spec.h"
#include "tests/spec/checked_layout.h"

namespace tessera::spec {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(FindViolationsTest, OneRankBreaksNothing) { EXPECT_THAT(CheckedLayout().Find(), IsEmpty()); }

TEST(FindViolationsTest, AFullLayoutThatDividesBreaksNothing) {
  CheckedLayout layout;
  layout.parallel = {.tensor_parallel_size = 4,
                     .pipeline_parallel_size = 2,
                     .data_parallel_size = 2,
                     .virtual_pipeline_size = 2,
                     .micro_batch_size = 2,
                     .sequence_parallel = true,
                     .schedule = ScheduleKind::kInterleaved};
  layout.num_devices = 16;
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, HeadsMustDivideByTensorParallelSize) {
  CheckedLayout layout;
  layout.parallel.tensor_parallel_size = 8;
  const std::vector<Violation> violations = layout.Find();
  ASSERT_THAT(violations, Breaks("heads % tp"));
  EXPECT_THAT(violations,
              Contains(AllOf(Field(&Violation::needed, 8), Field(&Violation::available, 12),
                             Field(&Violation::message, AllOf(HasSubstr("12"), HasSubstr("8"))))));
}

TEST(FindViolationsTest, KeyValueHeadsMayBeFewerThanTensorRanksWhenTheyDivide) {
  CheckedLayout layout;
  layout.model.num_key_value_heads = 2;
  layout.parallel.tensor_parallel_size = 4;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.model.num_key_value_heads = 3;
  EXPECT_THAT(layout.Find(), Breaks("kv heads % tp"));
}

TEST(FindViolationsTest, TheMlpWidthMustDivideByTensorParallelSize) {
  CheckedLayout layout;
  layout.model.ffn_hidden_size = 386;
  layout.parallel.tensor_parallel_size = 4;
  EXPECT_THAT(layout.Find(), Breaks("ffn % tp"));
}

TEST(FindViolationsTest, ExpertsHaveTheirOwnMlpWidth) {
  CheckedLayout layout;
  layout.model.ffn_hidden_size = 386;
  layout.model.moe =
      MoeSpec{.num_experts = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 64};
  layout.parallel.tensor_parallel_size = 4;
  layout.parallel.sequence_parallel = true;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.model.moe->expert_ffn_hidden_size = 66;
  EXPECT_THAT(layout.Find(), Breaks("expert ffn % etp"));
  layout.parallel.expert_tensor_parallel_size = 2;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.model.moe->num_leading_dense_layers = 1;  // they do have an MLP of 386
  EXPECT_THAT(layout.Find(), Breaks("ffn % tp"));
  layout.model.moe->num_leading_dense_layers = 0;
  layout.model.moe->shared_expert_ffn_hidden_size = 66;
  EXPECT_THAT(layout.Find(), Breaks("ffn % tp"));
}

TEST(FindViolationsTest, SequenceParallelismCutsTheSequenceByTensorRanks) {
  CheckedLayout layout;
  layout.training.sequence_length = 62;
  layout.parallel.tensor_parallel_size = 4;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.sequence_parallel = true;
  EXPECT_THAT(layout.Find(), Breaks("sequence % tp"));
  layout.parallel.tensor_parallel_size = 1;
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, ContextParallelismCutsTheSequenceIntoTwoChunksARank) {
  CheckedLayout layout;
  layout.parallel.context_parallel_size = 4;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.training.sequence_length = 60;
  EXPECT_THAT(layout.Find(), Breaks("sequence % (2 * cp)"));
}

TEST(FindViolationsTest, LearnedPositionsBoundTheSequence) {
  CheckedLayout layout;
  layout.training.sequence_length = 65;
  EXPECT_THAT(layout.Find(), Breaks("sequence <= positions"));
  layout.model.position = PositionKind::kRope;
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, TheBatchMustDivideIntoMicrobatchesOfAllReplicas) {
  CheckedLayout layout;
  layout.parallel.data_parallel_size = 4;
  layout.parallel.micro_batch_size = 3;
  const std::vector<Violation> violations = layout.Find();
  ASSERT_THAT(violations, Breaks("global batch % (micro batch * dp)"));
  EXPECT_THAT(violations[0].message, AllOf(HasSubstr("16"), HasSubstr("12")));
}

TEST(FindViolationsTest, EachVirtualStageNeedsALayer) {
  CheckedLayout layout;
  layout.parallel.pipeline_parallel_size = 16;
  EXPECT_THAT(layout.Find(), Breaks("layers >= stages"));
}

TEST(FindViolationsTest, GivenStageSizesMustCoverTheModel) {
  CheckedLayout layout;
  layout.parallel.pipeline_parallel_size = 3;
  layout.parallel.layers_per_virtual_stage = {3, 3, 2};
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.layers_per_virtual_stage = {3, 3, 3};
  EXPECT_THAT(layout.Find(), Breaks("layers per stage sum"));
  layout.parallel.layers_per_virtual_stage = {4, 4};
  EXPECT_THAT(layout.Find(), Breaks("layers per stage entries"));
  layout.parallel.layers_per_virtual_stage = {9, -1, 0};
  EXPECT_THAT(layout.Find(), Breaks("layers per stage >= 0"));
}

TEST(FindViolationsTest, ChunksAndInterleavingGoTogether) {
  CheckedLayout layout;
  layout.parallel.pipeline_parallel_size = 2;
  layout.parallel.virtual_pipeline_size = 2;
  EXPECT_THAT(layout.Find(), Breaks("vpp needs interleaved"));
  layout.parallel.schedule = ScheduleKind::kInterleaved;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.virtual_pipeline_size = 1;
  EXPECT_THAT(layout.Find(), Breaks("interleaved needs vpp > 1"));
  layout.parallel.virtual_pipeline_size = 2;
  layout.parallel.pipeline_parallel_size = 1;
  EXPECT_THAT(layout.Find(), Breaks("vpp needs pp > 1"));
}

TEST(FindViolationsTest, InterleavingNeedsMicrobatchesInMultiplesOfStages) {
  CheckedLayout layout;
  layout.parallel = {.pipeline_parallel_size = 4,
                     .virtual_pipeline_size = 2,
                     .micro_batch_size = 8,
                     .schedule = ScheduleKind::kInterleaved};
  EXPECT_THAT(layout.Find(), Breaks("microbatches % pp"));
  layout.parallel.micro_batch_size = 4;
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, ExpertParallelismNeedsExpertsThatDivide) {
  CheckedLayout layout;
  layout.parallel.expert_parallel_size = 4;
  layout.parallel.data_parallel_size = 4;
  EXPECT_THAT(layout.Find(), Breaks("ep needs experts"));
  layout.model.moe =
      MoeSpec{.num_experts = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 64};
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.model.moe->num_experts = 6;
  EXPECT_THAT(layout.Find(), Breaks("experts % ep"));
  layout.parallel.data_parallel_size = 2;
  EXPECT_THAT(layout.Find(), Breaks("tp * cp * dp % (etp * ep)"));
}

TEST(FindViolationsTest, ExpertsSpreadOverTheRanksOfAStage) {
  CheckedLayout layout;
  layout.model.moe =
      MoeSpec{.num_experts = 16, .experts_per_token = 2, .expert_ffn_hidden_size = 64};
  layout.parallel.tensor_parallel_size = 2;
  layout.parallel.sequence_parallel = true;
  layout.parallel.context_parallel_size = 2;
  layout.parallel.data_parallel_size = 2;
  layout.parallel.expert_parallel_size = 8;
  EXPECT_THAT(layout.Find(), Breaks("tp * cp * dp % (etp * ep)"));  // etp is tp: 16 ranks
  layout.parallel.expert_tensor_parallel_size = 1;                  // 8 ranks
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, TensorRanksThatRouteHaveTokensOfTheirOwn) {
  CheckedLayout layout;
  layout.parallel.tensor_parallel_size = 2;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.model.moe =
      MoeSpec{.num_experts = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 64};
  EXPECT_THAT(layout.Find(), Breaks("experts with tp need sequence parallelism"));
  layout.parallel.sequence_parallel = true;
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, SwappingHeadsForTokensNeedsHeadsForEveryRank) {
  CheckedLayout layout;
  layout.training.sequence_length = 60;
  layout.parallel.context_parallel_size = 4;
  layout.parallel.context_kind = ContextKind::kAllToAll;
  EXPECT_THAT(layout.Find(), IsEmpty());  // four chunks, not eight; twelve heads
  layout.model.num_key_value_heads = 2;
  EXPECT_THAT(layout.Find(), Breaks("kv heads % cp"));
  layout.parallel.tensor_parallel_size = 2;
  EXPECT_THAT(layout.Find(), Breaks("heads % (tp * cp)"));
  layout.training.sequence_length = 62;
  EXPECT_THAT(layout.Find(), Breaks("sequence % cp"));
}

TEST(FindViolationsTest, RingsNeedFlashAttentionOverWholeSequences) {
  CheckedLayout layout;
  layout.parallel.context_parallel_size = 2;
  layout.parallel.attention = AttentionKind::kUnfused;
  EXPECT_THAT(layout.Find(), Breaks("ring needs flash attention"));
  layout.parallel.attention = AttentionKind::kFlash;
  layout.model.sliding_window = SlidingWindowSpec{.size = 16};
  EXPECT_THAT(layout.Find(), Breaks("ring needs full attention"));
  layout.parallel.context_kind = ContextKind::kAllGather;
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, ShardingGroupsDivideTheGradientGroup) {
  CheckedLayout layout;
  layout.parallel.data_parallel_size = 8;
  layout.parallel.zero_group_size = 4;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.zero_group_size = 3;
  EXPECT_THAT(layout.Find(), Breaks("dp * cp % zero group"));
  layout.parallel.zero_stage = 0;  // nothing is sharded
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, ReplicasOfShardsDivideTheRanksThatHoldTheSameExperts) {
  CheckedLayout layout;
  layout.model.moe =
      MoeSpec{.num_experts = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 64};
  layout.parallel.data_parallel_size = 8;
  layout.parallel.expert_parallel_size = 4;  // two ranks hold the same experts
  layout.parallel.zero_group_size = 4;       // two replicas
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.zero_group_size = 2;  // four replicas
  EXPECT_THAT(layout.Find(), Breaks("expert dp % zero replicas"));
}

TEST(FindViolationsTest, AMiddleStageNeedsALayerInOneOfItsChunks) {
  CheckedLayout layout;
  layout.parallel.pipeline_parallel_size = 4;
  layout.parallel.layers_per_virtual_stage = {0, 4, 4, 0};  // embedding and head alone
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.layers_per_virtual_stage = {4, 0, 4, 0};
  EXPECT_THAT(layout.Find(), Breaks("layers on every stage"));
  layout.parallel.schedule = ScheduleKind::kInterleaved;
  layout.parallel.virtual_pipeline_size = 2;
  layout.parallel.layers_per_virtual_stage = {2, 0, 2, 0, 0, 4, 0, 0};
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, GroupsOfMicrobatchesFitThePipeline) {
  CheckedLayout layout;
  layout.parallel.pipeline_parallel_size = 2;
  layout.parallel.microbatch_group_size = 2;
  EXPECT_THAT(layout.Find(), Breaks("groups need interleaved"));
  layout.parallel.schedule = ScheduleKind::kInterleaved;
  layout.parallel.virtual_pipeline_size = 2;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.microbatch_group_size = 7;  // 16 = 7 + 7 + 2
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.microbatch_group_size = 5;  // 16 = 5 + 5 + 5 + 1
  EXPECT_THAT(layout.Find(), Breaks("microbatches in groups"));
}

TEST(FindViolationsTest, RecomputedLayersFitTheirStages) {
  CheckedLayout layout;
  layout.parallel.pipeline_parallel_size = 2;
  layout.parallel.recompute = Recompute::kFull;
  layout.parallel.recomputed_layers_per_virtual_stage = {4, 0};
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.recomputed_layers_per_virtual_stage = {5, 0};
  EXPECT_THAT(layout.Find(), Breaks("recomputed layers in range"));
  layout.parallel.layers_per_virtual_stage = {5, 3};
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.recomputed_layers_per_virtual_stage = {5};
  EXPECT_THAT(layout.Find(), Breaks("recomputed layers entries"));
  layout.parallel.recomputed_layers_per_virtual_stage = {1, 1};
  layout.parallel.recompute = Recompute::kSelective;
  EXPECT_THAT(layout.Find(), Breaks("recomputed layers need full"));
}

TEST(FindViolationsTest, GradientsAreReducedAsFloatingPoint) {
  CheckedLayout layout;
  layout.parallel.gradient_reduce_type = base::DType::kBFloat16;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.gradient_reduce_type = base::DType::kInt64;
  EXPECT_THAT(layout.Find(), Breaks("gradient reduce type"));
}

TEST(FindViolationsTest, TheWorldMustBeTheDevicesGiven) {
  CheckedLayout layout;
  layout.parallel.tensor_parallel_size = 4;
  layout.num_devices = 8;
  EXPECT_THAT(layout.Find(), Breaks("world size"));
  layout.parallel.data_parallel_size = 2;
  EXPECT_THAT(layout.Find(), IsEmpty());
}

TEST(FindViolationsTest, DevicesThatDoNotFactorSaySo) {
  CheckedLayout layout;
  layout.parallel.tensor_parallel_size = 4;
  layout.num_devices = 6;
  const std::vector<Violation> violations = layout.Find();
  ASSERT_THAT(violations, Breaks("devices % (tp * cp * pp)"));
  EXPECT_THAT(violations[0].message, AllOf(HasSubstr("6 devices"), HasSubstr("4")));
}

TEST(FindViolationsTest, NonsenseSizesAreToldAloneAndDivideNothing) {
  const std::vector<std::function<void(CheckedLayout&)>> slips = {
      [](CheckedLayout& layout) { layout.model.num_attention_heads = 0; },
      [](CheckedLayout& layout) { layout.model.num_key_value_heads = 0; },
      [](CheckedLayout& layout) { layout.parallel.tensor_parallel_size = 0; },
      [](CheckedLayout& layout) { layout.parallel.context_parallel_size = -1; },
      [](CheckedLayout& layout) { layout.parallel.micro_batch_size = 0; },
      [](CheckedLayout& layout) { layout.parallel.micro_batch_size = int64_t{1} << 62; },
      [](CheckedLayout& layout) { layout.training.sequence_length = 0; }};
  for (std::size_t i = 0; i < slips.size(); ++i) {
    CheckedLayout layout;
    slips[i](layout);
    EXPECT_THAT(layout.Find(), ElementsAre(Field(&Violation::constraint, "sizes in range")))
        << "slip " << i;
  }
}

TEST(FindViolationsTest, SizesThatOverflowTogetherAreTold) {
  CheckedLayout layout;
  layout.parallel.tensor_parallel_size = 1 << 30;
  layout.parallel.pipeline_parallel_size = 1 << 30;
  layout.parallel.context_parallel_size = 1 << 30;
  layout.parallel.data_parallel_size = 1 << 30;
  EXPECT_THAT(layout.Find(), Breaks("world size"));

  CheckedLayout experts;
  experts.model.moe =
      MoeSpec{.num_experts = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 8};
  experts.parallel.zero_stage = experts.parallel.zero_group_size = 1;
  experts.parallel.expert_parallel_size = experts.parallel.expert_tensor_parallel_size = 1 << 30;
  EXPECT_THAT(experts.Find(), Contains(Field(&Violation::constraint, "experts % ep")));

  // An odd number of elements beyond int64_t.
  CheckedLayout transfers;
  transfers.model.hidden_size = transfers.training.sequence_length =
      transfers.parallel.micro_batch_size = 2147483647;
  transfers.parallel.tensor_parallel_size = 2;
  transfers.parallel.sequence_parallel = false;
  transfers.parallel.scatter_gather_transfers = true;
  EXPECT_THAT(transfers.Find(), Contains(Field(&Violation::constraint, "transfer % tp")));
}

TEST(FindViolationsTest, ZeroStagesAreFour) {
  CheckedLayout layout;
  layout.parallel.zero_stage = 3;
  EXPECT_THAT(layout.Find(), IsEmpty());
  layout.parallel.zero_stage = 4;
  EXPECT_THAT(layout.Find(), Breaks("zero stage"));
}

TEST(ParallelSpecTest, WorldIsTheProductOfTheMeshAxes) {
  const ParallelSpec parallel = {.tensor_parallel_size = 2,
                                 .pipeline_parallel_size = 3,
                                 .data_parallel_size = 4,
                                 .context_parallel_size = 5,
                                 .expert_parallel_size = 4};
  EXPECT_EQ(WorldSize(parallel), 120);
}

TEST(ParallelSpecTest, MicrobatchesShareTheBatchOverReplicas) {
  const TrainingSpec training = {.global_batch_size = 48};
  EXPECT_EQ(NumMicrobatches(training, {.data_parallel_size = 4, .micro_batch_size = 2}), 6);
}

}  // namespace
}  // namespace tessera::spec
