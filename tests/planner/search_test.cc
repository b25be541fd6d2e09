#include "planner/search.h"

#include <gtest/gtest.h>

#include "planner/search_space.h"
#include "tests/planner/test_requests.h"

namespace tessera::planner {
namespace {

SearchResult RunSearch(const Request& request) {
  cost_model::JobCosts costs(request.job);
  return Search(request, costs);
}

int64_t NumRejected(const SearchResult& result) {
  int64_t num_rejected = 0;
  for (const Rejection& rejection : result.rejections) num_rejected += rejection.num_layouts;
  return num_rejected;
}

TEST(SearchTest, EveryLayoutIsPricedPrunedOrCountedOut) {
  for (const char* model : {"gpt3-1.3b", "gpt3-13b", "llama3-8b"}) {
    const Request request = MakeTestRequest(model, "dgx-a100-40gb", 16, 64);
    const SearchResult result = RunSearch(request);
    for (const Rejection& rejection : result.rejections) {
      EXPECT_EQ(rejection.example.constraint, rejection.constraint);
      EXPECT_FALSE(rejection.example.message.empty()) << rejection.constraint;
    }
    EXPECT_EQ(result.num_priced + result.num_pruned + NumRejected(result), result.num_layouts);
    // Those of the space, and those that recompute the fewest layers: one more choice of three.
    int64_t num_layouts = 0;
    ForEachLayout(request, [&](const spec::ParallelSpec&) { ++num_layouts; });
    EXPECT_EQ(result.num_layouts, num_layouts / 2 * 3) << model;
  }
}

TEST(SearchTest, RowsAscendAndFit) {
  const Request request = MakeTestRequest("gpt3-13b", "dgx-a100-80gb", 64, 512);
  const SearchResult result = RunSearch(request);
  ASSERT_GT(result.rows.size(), 10u);
  for (size_t i = 0; i < result.rows.size(); ++i) {
    const RankedLayout& row = result.rows[i];
    EXPECT_LE(row.report.peak_bytes, request.job.cluster.device.memory_bytes);
    EXPECT_TRUE(
        spec::FindViolations(request.job.model, request.job.training, row.parallel, 64).empty());
    if (i > 0) {
      EXPECT_GE(row.report.step_time_s, result.rows[i - 1].report.step_time_s);
    }
  }
}

TEST(SearchTest, TheFirstBrokenRuleIsTheReason) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 8, 64);
  request.pins.tensor_parallel_size = 8;
  request.job.model.num_attention_heads = request.job.model.num_key_value_heads = 12;
  const SearchResult result = RunSearch(request);
  ASSERT_EQ(result.rejections.size(), 1u);
  EXPECT_EQ(result.rejections[0].constraint, "heads % tp");
  EXPECT_TRUE(result.rows.empty());
}

TEST(SearchTest, TheSameRequestGivesTheSameRows) {
  const Request request = MakeTestRequest("llama3-8b", "dgx-h100", 16, 64);
  const SearchResult first = RunSearch(request);
  const SearchResult second = RunSearch(request);
  ASSERT_EQ(first.rows.size(), second.rows.size());
  for (size_t i = 0; i < first.rows.size(); ++i) {
    EXPECT_EQ(first.rows[i].parallel, second.rows[i].parallel);
    EXPECT_EQ(first.rows[i].report.step_time_s, second.rows[i].report.step_time_s);
  }
}

TEST(SearchTest, ExpertsAreSpreadWhereTheTargetCan) {
  Request request = MakeTestRequest("mixtral-8x7b", "dgx-h100", 16, 64);
  request.job.training.sequence_length = 4096;
  const auto most_expert_ranks = [&] {
    int most = 0;
    for (const RankedLayout& row : RunSearch(request).rows) {
      most = std::max(most, row.parallel.expert_parallel_size);
    }
    return most;
  };
  request.job.runtime.expert_parallel = true;
  EXPECT_GT(most_expert_ranks(), 1);
  request.job.runtime.expert_parallel = false;
  EXPECT_LE(most_expert_ranks(), 1);
}

}  // namespace
}  // namespace tessera::planner
