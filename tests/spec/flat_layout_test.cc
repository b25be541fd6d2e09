// Where parameters lie in flat buffers, and which of them a rank updates.
#include "cost_model/spec/flat_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/spec/owned_ranges.h"

namespace tessera::spec {
namespace {

// Two layers of four experts; matrices of experts are [8, 16] and [16, 8].
ModelSpec SmallMixture() {
  return {.norm = NormKind::kRmsNorm,
          .position = PositionKind::kRope,
          .num_layers = 2,
          .hidden_size = 16,
          .num_attention_heads = 2,
          .num_key_value_heads = 2,
          .head_dim = 8,
          .vocab_size = 32,
          .moe = MoeSpec{.num_experts = 4, .experts_per_token = 1, .expert_ffn_hidden_size = 8}};
}

ParallelSpec Parallel(int tp, int dp, int ep, int etp, int zero_stage) {
  return {.tensor_parallel_size = tp,
          .data_parallel_size = dp,
          .expert_parallel_size = ep,
          .expert_tensor_parallel_size = etp,
          .zero_stage = zero_stage,
          .vocab_size_multiple = 8,
          .bucket_elements = 500};
}

std::vector<ParameterSpec> Parameters(const ParallelSpec& parallel, int expert_rank) {
  return RankParameters(SmallMixture(), parallel, PartitionStages(SmallMixture(), parallel),
                        expert_rank);
}

TEST(FlatLayoutTest, ExpertsLieBehindAllOthersInBucketsOfTheirOwn) {
  const ParallelSpec parallel = Parallel(1, 2, 2, 0, 1);
  const std::vector<ParameterSpec> parameters = Parameters(parallel, /*expert_rank=*/1);
  const FlatLayout layout = MakeFlatLayout(parameters, parallel);
  const auto first_expert = std::find_if(parameters.begin(), parameters.end(),
                                         [](const auto& parameter) { return parameter.is_expert; });
  EXPECT_EQ(first_expert->name, "layers.0.mlp.experts.2.up.weight");
  // Two experts in each of two layers, two matrices of 128 elements each.
  EXPECT_EQ(parameters.end() - first_expert, 8);
  const auto num_others = static_cast<int>(first_expert - parameters.begin());
  int64_t expert_elements = 0;
  int64_t end = 0;
  for (const FlatBucket& bucket : layout.buckets) {
    EXPECT_EQ(bucket.offset, end);
    end += bucket.num_elements;
    EXPECT_EQ(bucket.is_expert, bucket.first_parameter >= num_others);
    EXPECT_EQ(bucket.offset, layout.parameters[bucket.first_parameter].offset);
    if (bucket.is_expert) expert_elements += bucket.num_elements;
  }
  EXPECT_EQ(end, layout.num_elements);
  EXPECT_EQ(expert_elements, 8 * 128);
}

// Every rank of a stage, each with its experts: each element is first held by one of them.
TEST(OwnedRangesTest, EachElementHasOneFirstHolder) {
  for (const ParallelSpec& parallel :
       {Parallel(1, 4, 2, 0, 0), Parallel(1, 4, 2, 0, 1), Parallel(2, 2, 2, 1, 1),
        Parallel(2, 2, 1, 2, 0), Parallel(1, 4, 4, 0, 1)}) {
    const RankLayout ranks(parallel);
    int64_t num_experts = 0;
    int64_t num_others = 0;
    FlatLayout layout;
    for (int rank = 0; rank < ranks.world_size(); ++rank) {
      layout = MakeFlatLayout(Parameters(parallel, ranks.IndexIn(rank, Axis::kExpert)), parallel);
      int64_t state_offset = 0;
      for (const OwnedRange& range : OwnedRanges(layout, parallel, ranks, rank)) {
        EXPECT_EQ(range.state_offset, state_offset);
        state_offset += range.num_elements;
        if (!range.is_first_holder) continue;
        (range.is_expert ? num_experts : num_others) += range.num_elements;
      }
    }
    // Matrices of experts divide evenly: all 2 * 4 of them, two matrices each.
    EXPECT_EQ(num_experts, 2 * 4 * 2 * 128);
    const auto first_expert =
        std::find_if(layout.buckets.begin(), layout.buckets.end(),
                     [](const FlatBucket& bucket) { return bucket.is_expert; });
    EXPECT_EQ(num_others, parallel.tensor_parallel_size * first_expert->offset);
  }
}

// Four holders in two groups that shard: neighbours split a bucket, the second group repeats it.
TEST(OwnedRangesTest, HybridShardsRepeatInEveryGroup) {
  ParallelSpec parallel = Parallel(1, 4, 1, 0, 1);
  parallel.zero_group_size = 2;
  const RankLayout ranks(parallel);
  FlatLayout layout{.num_elements = 128};
  layout.buckets = {{.num_elements = 128}};
  const auto owned_by = [&](int rank) {
    return OwnedRanges(layout, parallel, ranks, rank).front();
  };
  EXPECT_EQ(owned_by(0), (OwnedRange{.num_elements = 64}));
  EXPECT_EQ(owned_by(1), (OwnedRange{.offset = 64, .num_elements = 64}));
  EXPECT_EQ(owned_by(2), (OwnedRange{.num_elements = 64, .is_first_holder = false}));
  EXPECT_EQ(owned_by(3), (OwnedRange{.offset = 64, .num_elements = 64, .is_first_holder = false}));
}

}  // namespace
}  // namespace tessera::spec
