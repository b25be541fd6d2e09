#include "cost_model/spec/stage_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/base/check.h"

namespace tessera::spec {
namespace {

using ::testing::ElementsAre;

std::vector<VirtualStage> Partition(int num_layers, int pp, int vpp, std::vector<int> layers = {}) {
  ModelSpec model;
  model.num_layers = num_layers;
  ParallelSpec parallel;
  parallel.pipeline_parallel_size = pp;
  parallel.virtual_pipeline_size = vpp;
  parallel.layers_per_virtual_stage = std::move(layers);
  return PartitionStages(model, parallel);
}

std::vector<int> LayerCounts(const std::vector<VirtualStage>& stages) {
  std::vector<int> counts;
  for (const VirtualStage& stage : stages) counts.push_back(stage.num_layers);
  return counts;
}

TEST(StagePartitionTest, EveryLayerIsOnExactlyOneStage) {
  for (const int num_layers : {1, 2, 7, 12, 30, 96, 126}) {
    for (const int pp : {1, 2, 3, 4, 8, 16}) {
      for (const int vpp : {1, 2, 3, 5}) {
        if (num_layers < pp * vpp) continue;
        const std::vector<VirtualStage> stages = Partition(num_layers, pp, vpp);
        ASSERT_EQ(static_cast<int>(stages.size()), pp * vpp);
        int next_layer = 0;
        for (int index = 0; index < pp * vpp; ++index) {
          const VirtualStage& stage = stages[index];
          EXPECT_EQ(stage.index, index);
          EXPECT_EQ(stage.chunk * pp + stage.pipeline_stage, index);
          EXPECT_EQ(stage.first_layer, next_layer);
          EXPECT_GE(stage.num_layers, 1);
          EXPECT_EQ(stage.has_embedding, index == 0);
          EXPECT_EQ(stage.has_head, index == pp * vpp - 1);
          next_layer += stage.num_layers;
        }
        EXPECT_EQ(next_layer, num_layers) << "pp=" << pp << " vpp=" << vpp;
      }
    }
  }
}

TEST(StagePartitionTest, StagesAndPipelineStagesDifferByAtMostOneLayer) {
  for (const int num_layers : {10, 13, 30, 31, 61}) {
    for (const int pp : {2, 3, 4}) {
      for (const int vpp : {1, 2}) {
        const std::vector<VirtualStage> stages = Partition(num_layers, pp, vpp);
        const std::vector<int> counts = LayerCounts(stages);
        const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
        EXPECT_LE(*most - *least, 1);
        std::vector<int> by_pipeline_stage(pp, 0);
        for (const VirtualStage& stage : stages) {
          by_pipeline_stage[stage.pipeline_stage] += stage.num_layers;
        }
        const auto [lightest, heaviest] =
            std::minmax_element(by_pipeline_stage.begin(), by_pipeline_stage.end());
        EXPECT_LE(*heaviest - *lightest, 1) << num_layers << " layers, pp " << pp << " vpp " << vpp;
      }
    }
  }
}

TEST(StagePartitionTest, TheRemainderGoesToTheMiddleAndSparesTheEnds) {
  EXPECT_THAT(LayerCounts(Partition(9, 4, 1)), ElementsAre(2, 3, 2, 2));
  EXPECT_THAT(LayerCounts(Partition(10, 4, 1)), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(LayerCounts(Partition(11, 4, 1)), ElementsAre(3, 3, 3, 2));
  EXPECT_THAT(LayerCounts(Partition(5, 2, 1)), ElementsAre(3, 2));
  EXPECT_THAT(LayerCounts(Partition(10, 2, 2)), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(LayerCounts(Partition(12, 4, 1)), ElementsAre(3, 3, 3, 3));
}

TEST(StagePartitionTest, LayersGivenByHandAreKept) {
  const std::vector<VirtualStage> stages = Partition(10, 2, 2, {1, 4, 3, 2});
  EXPECT_THAT(LayerCounts(stages), ElementsAre(1, 4, 3, 2));
  EXPECT_EQ(stages[3], (VirtualStage{.index = 3,
                                     .pipeline_stage = 1,
                                     .chunk = 1,
                                     .first_layer = 8,
                                     .num_layers = 2,
                                     .has_head = true}));
}

TEST(StagePartitionTest, APipelineStageHoldsItsChunksInOrder) {
  const std::vector<VirtualStage> own = StagesOf(Partition(12, 3, 2), 1);
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[0].index, 1);
  EXPECT_EQ(own[1].index, 4);
  EXPECT_EQ(own[1].first_layer, 8);
}

TEST(StagePartitionTest, LostOrInventedLayersAreABug) {
  EXPECT_THROW(Partition(10, 2, 1, {5, 4}), base::CheckFailure);
  EXPECT_THROW(Partition(10, 2, 1, {5, 6}), base::CheckFailure);
  EXPECT_THROW(Partition(10, 2, 1, {10}), base::CheckFailure);
}

}  // namespace
}  // namespace tessera::spec
