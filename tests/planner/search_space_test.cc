#include "planner/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

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
    const std::string key = base::Concat(
        layout.tensor_parallel_size, ' ', layout.pipeline_parallel_size, ' ',
        layout.virtual_pipeline_size, ' ', layout.micro_batch_size, ' ', layout.sequence_parallel,
        ' ', static_cast<int>(layout.recompute), ' ', layout.zero_stage);
    EXPECT_TRUE(seen.insert(key).second) << "visited twice: " << key;
  });
  EXPECT_GT(seen.size(), 100u);
}

TEST(SearchSpaceTest, EveryMeshOfThePowersOfTwoIsThere) {
  const Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 16, 64);
  std::set<std::tuple<int, int, int>> meshes;
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    meshes.emplace(layout.tensor_parallel_size, layout.pipeline_parallel_size,
                   layout.data_parallel_size);
  });
  EXPECT_EQ(meshes.size(), 15u);  // ways to put four factors of two into three places
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
