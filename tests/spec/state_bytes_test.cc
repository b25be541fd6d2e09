// Bytes of weights, gradients and optimizer state a parameter, by what is sharded over whom.
#include <gtest/gtest.h>

#include "cost_model/spec/flat_layout.h"

namespace tessera::spec {
namespace {

constexpr int64_t kElements = 1'024'000;

// Mixed precision with gradients of 16 bits, as in the paper of ZeRO.
TrainingSpec Mixed() { return {.precision = Precision::kFp16}; }

ParallelSpec Sharded(int zero_stage, int dp) {
  ParallelSpec parallel;
  parallel.data_parallel_size = dp;
  parallel.zero_stage = zero_stage;
  parallel.gradient_reduce_type = base::DType::kFloat16;
  return parallel;
}

double BytesAParameter(const StateBytes& bytes) {
  return static_cast<double>(bytes.weights_bytes + bytes.gradients_bytes + bytes.optimizer_bytes) /
         kElements;
}

// Rajbhandari et al. 2020, arXiv:1910.02054, figure 1: 2 + 2 + 12 bytes a parameter; over 64 ranks
// 4 + 12/64, 2 + 14/64 and 16/64.
TEST(StateBytesTest, ZeroStagesHoldWhatTheirPaperSays) {
  const auto bytes_of = [](int stage) {
    return BytesAParameter(StateBytesOf({.elements = kElements}, Mixed(), Sharded(stage, 64)));
  };
  EXPECT_DOUBLE_EQ(bytes_of(0), 16);
  EXPECT_DOUBLE_EQ(bytes_of(1), 4 + 12.0 / 64);
  EXPECT_DOUBLE_EQ(bytes_of(2), 2 + 14.0 / 64);
  EXPECT_DOUBLE_EQ(bytes_of(3), 16.0 / 64);
}

// Megatron-LM's distributed optimizer, bf16 with fp32 gradients: 6 + 12/d; without it 18.
TEST(StateBytesTest, TheDistributedOptimizerHoldsSixBytesAndTwelveOverD) {
  const TrainingSpec training{.precision = Precision::kBf16};
  ParallelSpec parallel = Sharded(1, 4);
  parallel.context_parallel_size = 2;
  parallel.gradient_reduce_type = base::DType::kFloat32;
  const StateElements elements{.elements = kElements};
  EXPECT_DOUBLE_EQ(BytesAParameter(StateBytesOf(elements, training, parallel)), 6 + 12.0 / 8);
  parallel.zero_stage = 0;
  EXPECT_DOUBLE_EQ(BytesAParameter(StateBytesOf(elements, training, parallel)), 18);
}

// Of 16 ranks that hold the rest, ep 4 leaves 4 that hold the same experts: 6 + 12/4 bytes.
TEST(StateBytesTest, ExpertsAreShardedOverTheRanksThatHoldThem) {
  const TrainingSpec training{.precision = Precision::kBf16};
  ParallelSpec parallel = Sharded(1, 16);
  parallel.expert_parallel_size = 4;
  parallel.gradient_reduce_type = base::DType::kFloat32;
  EXPECT_DOUBLE_EQ(BytesAParameter(StateBytesOf(
                       {.elements = kElements, .expert_elements = kElements}, training, parallel)),
                   6 + 12.0 / 4);
}

TEST(StateBytesTest, HybridShardingDividesByTheShardGroupAlone) {
  ParallelSpec parallel = Sharded(3, 64);
  parallel.zero_group_size = 8;
  EXPECT_DOUBLE_EQ(BytesAParameter(StateBytesOf({.elements = kElements}, Mixed(), parallel)),
                   16.0 / 8);
}

TEST(StateBytesTest, AHostTakesTheOptimizerStateAlone) {
  ParallelSpec parallel = Sharded(1, 4);
  parallel.offload_optimizer = true;
  const StateBytes bytes = StateBytesOf({.elements = kElements}, Mixed(), parallel);
  EXPECT_EQ(bytes.optimizer_bytes, 0);
  EXPECT_DOUBLE_EQ(BytesAParameter(bytes), 4);
}

// In a pipeline stage 2 adds whole gradients up: no less than stage 1.
TEST(StateBytesTest, APipelineKeepsWholeGradientsUntilTheyAreReduced) {
  ParallelSpec parallel = Sharded(2, 64);
  parallel.pipeline_parallel_size = 2;
  EXPECT_DOUBLE_EQ(BytesAParameter(StateBytesOf({.elements = kElements}, Mixed(), parallel)),
                   4 + 12.0 / 64);
}

// A layer of 3 and one of 5 units with an embedding of 8: two wholes of parameters; the gradients
// of one part at work, and of a layer whose reduction is under way.
TEST(StateBytesTest, GatheredPartsAreWholeForAWhile) {
  const StateElements elements{.elements = kElements, .largest_part = 8000, .largest_layer = 5000};
  ParallelSpec parallel = Sharded(3, 8);
  EXPECT_EQ(StateBytesOf(elements, Mixed(), parallel).gathered_bytes, (8000 + 5000) * 2);
  EXPECT_EQ(StateBytesOf(elements, Mixed(), parallel).unreduced_bytes, (8000 + 5000) * 2);
  parallel.overlap_grad_reduce = false;
  EXPECT_EQ(StateBytesOf(elements, Mixed(), parallel).unreduced_bytes, 8000 * 2);
  parallel.zero_stage = 2;
  EXPECT_EQ(StateBytesOf(elements, Mixed(), parallel).gathered_bytes, 0);
  EXPECT_EQ(StateBytesOf(elements, Mixed(), parallel).unreduced_bytes, 8000 * 2);
  parallel.pipeline_parallel_size = 2;
  EXPECT_EQ(StateBytesOf(elements, Mixed(), parallel).unreduced_bytes, 0);
}

// Tied embeddings on one stage: the head reads what the embedding gathered, with layers between.
TEST(StateBytesTest, AnEmbeddingThatTheHeadReadsStaysWholeMeanwhile) {
  const StateElements elements{
      .elements = kElements, .shared_embedding = 8000, .largest_part = 5000, .largest_layer = 5000};
  EXPECT_EQ(StateBytesOf(elements, Mixed(), Sharded(3, 8)).gathered_bytes,
            (8000 + 5000 + 5000) * 2);
}

}  // namespace
}  // namespace tessera::spec
