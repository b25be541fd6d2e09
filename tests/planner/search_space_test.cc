#include "planner/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <tuple>

#include "planner/stage_partitions.h"
#include "tests/planner/test_requests.h"

namespace tessera::planner {
namespace {

using ::testing::ElementsAre;

TEST(DivisorsOfTest, AscendAndMultiplyBack) {
  EXPECT_THAT(DivisorsOf(12), ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(DivisorsOf(1), ElementsAre(1));
  EXPECT_THAT(DivisorsOf(49), ElementsAre(1, 7, 49));
}

TEST(SearchSpaceTest, EveryLayoutUsesAllDevicesOnce) {
  const Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 24, 48);
  std::set<std::string> seen;
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    EXPECT_EQ(spec::WorldSize(layout), 24);
    EXPECT_EQ(48 / layout.data_parallel_size % layout.micro_batch_size, 0);
    const std::string key =
        base::Concat(layout.tensor_parallel_size, ' ', layout.pipeline_parallel_size, ' ',
                     layout.context_parallel_size, ' ', static_cast<int>(layout.context_kind), ' ',
                     layout.virtual_pipeline_size, ' ', layout.micro_batch_size, ' ',
                     layout.sequence_parallel, ' ', static_cast<int>(layout.recompute), ' ',
                     layout.zero_stage, ' ', static_cast<int>(layout.schedule), ' ',
                     ::testing::PrintToString(layout.layers_per_virtual_stage));
    EXPECT_TRUE(seen.insert(key).second) << "visited twice: " << key;
  });
  EXPECT_GT(seen.size(), 100u);
}

TEST(SearchSpaceTest, EveryMeshOfThePowersOfTwoIsThere) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 16, 64);
  request.pins.context_parallel_size = 1;
  std::set<std::tuple<int, int, int>> meshes;
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    meshes.emplace(layout.tensor_parallel_size, layout.pipeline_parallel_size,
                   layout.data_parallel_size);
  });
  EXPECT_EQ(meshes.size(), 15u);  // ways to put four factors of two into three places
}

TEST(SearchSpaceTest, ContextRanksKeepEnoughTokens) {
  Request request = MakeTestRequest("llama3-8b", "dgx-h100", 16, 64);  // 8,192 tokens
  std::set<int> sizes;
  for (const spec::ParallelSpec& mesh : MeshesOf(request)) {
    sizes.insert(mesh.context_parallel_size);
    EXPECT_EQ(spec::WorldSize(mesh), 16);
  }
  EXPECT_THAT(sizes, ElementsAre(1, 2, 4, 8));
}

TEST(SearchSpaceTest, ExpertsSpreadOverDivisorsOfTheirNumber) {
  const Request request = MakeTestRequest("mixtral-8x7b", "dgx-h100", 16, 64);
  std::set<std::pair<int, int>> forms;
  for (const spec::ParallelSpec& mesh : MeshesOf(request)) {
    if (mesh.pipeline_parallel_size > 1 || mesh.tensor_parallel_size != 2) continue;
    forms.emplace(mesh.expert_parallel_size, mesh.expert_tensor_parallel_size);
  }
  EXPECT_THAT(forms,
              ElementsAre(std::pair(1, 0), std::pair(1, 1), std::pair(2, 0), std::pair(2, 1),
                          std::pair(4, 0), std::pair(4, 1), std::pair(8, 0), std::pair(8, 1)));
}

TEST(SearchSpaceTest, EveryPinRestricts) {
  Request request = MakeTestRequest("llama3-8b", "dgx-h100", 16, 64);
  request.pins = {.pipeline_parallel_size = 2,
                  .data_parallel_size = 4,
                  .context_parallel_size = 2,
                  .sequence_parallel = false,
                  .num_recomputed_layers = 3,
                  .zero_stage = 0,
                  .schedule = spec::ScheduleKind::kZeroBubbleH1,
                  .context_kind = spec::ContextKind::kAllGather};
  int64_t num_layouts = 0;
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    ++num_layouts;
    EXPECT_EQ(layout.pipeline_parallel_size, 2);
    EXPECT_EQ(layout.data_parallel_size, 4);
    EXPECT_EQ(layout.context_parallel_size, 2);
    EXPECT_FALSE(layout.sequence_parallel);
    EXPECT_THAT(layout.recomputed_layers_per_virtual_stage, ElementsAre(3, 3));
    EXPECT_EQ(layout.zero_stage, 0);
    EXPECT_EQ(layout.schedule, spec::ScheduleKind::kZeroBubbleH1);
    EXPECT_EQ(layout.context_kind, spec::ContextKind::kAllGather);
  });
  EXPECT_GT(num_layouts, 0);
}

TEST(StagePartitionsTest, HoldEveryLayerOnceAndLightenTheEnds) {
  for (const auto& [num_layers, num_stages] :
       {std::pair(32, 4), std::pair(126, 16), std::pair(7, 2), std::pair(8, 8), std::pair(5, 1)}) {
    const auto partitions = StagePartitions(num_layers, num_stages);
    EXPECT_TRUE(partitions.front().empty());
    const std::set<std::vector<int>> different(partitions.begin(), partitions.end());
    EXPECT_EQ(different.size(), partitions.size());
    for (const std::vector<int>& layers : different) {
      if (layers.empty()) continue;
      EXPECT_EQ(static_cast<int>(layers.size()), num_stages);
      EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), num_layers);
      EXPECT_GE(*std::min_element(layers.begin(), layers.end()), 0);
    }
  }
  EXPECT_THAT(StagePartitions(32, 4), ::testing::Contains(ElementsAre(8, 9, 9, 6)));
  EXPECT_EQ(StagePartitions(32, 1).size(), 1u);
}

TEST(SearchSpaceTest, PinnedAxesStay) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 16, 64);
  request.pins.tensor_parallel_size = 2;
  request.pins.micro_batch_size = 4;
  request.pins.recompute = spec::Recompute::kFull;
  request.pins.schedule = spec::ScheduleKind::kGPipe;
  int64_t num_layouts = 0;
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    ++num_layouts;
    EXPECT_EQ(layout.tensor_parallel_size, 2);
    EXPECT_EQ(layout.micro_batch_size, 4);
    EXPECT_EQ(layout.recompute, spec::Recompute::kFull);
    EXPECT_EQ(layout.schedule, spec::ScheduleKind::kGPipe);
  });
  EXPECT_GT(num_layouts, 0);
}

TEST(SearchSpaceTest, ThePinnedReplicasLeaveTheRestToTheModel) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 16, 64);
  request.pins.data_parallel_size = 4;
  request.pins.context_parallel_size = 1;
  std::set<std::pair<int, int>> meshes;
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    meshes.emplace(layout.tensor_parallel_size, layout.pipeline_parallel_size);
  });
  EXPECT_THAT(meshes, ElementsAre(std::pair(1, 4), std::pair(2, 2), std::pair(4, 1)));
}

TEST(SearchSpaceTest, GPipeIsNeverTriedUnasked) {
  const Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 8, 64);
  ForEachLayout(request, [](const spec::ParallelSpec& layout) {
    EXPECT_NE(layout.schedule, spec::ScheduleKind::kGPipe);
  });
}

TEST(PlainLayoutTest, DataParallelismTakesWhatIsLeft) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 32, 64);
  request.pins.tensor_parallel_size = 4;
  request.pins.pipeline_parallel_size = 2;
  request.pins.virtual_pipeline_size = 3;
  const spec::ParallelSpec layout = PlainLayout(request);
  EXPECT_EQ(layout.data_parallel_size, 4);
  EXPECT_EQ(layout.schedule, spec::ScheduleKind::kInterleaved);
}

}  // namespace
}  // namespace tessera::planner
