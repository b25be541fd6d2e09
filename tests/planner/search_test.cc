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

TEST(SearchTest, EveryLayoutIsFeasibleOrCountedOut) {
  for (const char* model : {"gpt3-1.3b", "gpt3-13b", "llama3-8b"}) {
    const SearchResult result = RunSearch(MakeTestRequest(model, "dgx-a100-40gb", 16, 64));
    int64_t num_rejected = 0;
    for (const Rejection& rejection : result.rejections) {
      EXPECT_EQ(rejection.example.constraint, rejection.constraint);
      EXPECT_FALSE(rejection.example.message.empty()) << rejection.constraint;
      num_rejected += rejection.num_layouts;
    }
    EXPECT_EQ(result.num_feasible + num_rejected, result.num_layouts) << model;
  }
}

// The slower way: every layout priced in full.
TEST(SearchTest, TheFirstRowIsTheBestOfAll) {
  for (const auto& [model, cluster, num_devices, batch] :
       {std::tuple("gpt3-1.3b", "dgx-a100-80gb", 8, 16),
        std::tuple("llama3-8b", "dgx-h100", 16, 32), std::tuple("gpt2-124m", "local-cpu", 4, 8)}) {
    const Request request = MakeTestRequest(model, cluster, num_devices, batch);
    cost_model::JobCosts costs(request.job);
    double best_s = 1e300;
    ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
      const cost_model::StepPrice price = PriceLayout(request, layout, costs);
      if (price.violations.empty()) best_s = std::min(best_s, price.report.step_time_s);
    });
    const SearchResult result = Search(request, costs);
    ASSERT_FALSE(result.rows.empty());
    EXPECT_NEAR(result.rows.front().report.step_time_s, best_s, 0.005 * best_s) << model;
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

TEST(SearchTest, MoreMemoryNeverLeavesFewerLayouts) {
  int64_t previous = 0;
  for (const double factor : {0.25, 0.5, 1.0, 2.0, 8.0}) {
    Request request = MakeTestRequest("gpt3-13b", "dgx-a100-80gb", 16, 64);
    request.job.cluster.device.memory_bytes =
        static_cast<int64_t>(factor * static_cast<double>(request.job.cluster.device.memory_bytes));
    const int64_t num_feasible = RunSearch(request).num_feasible;
    EXPECT_GE(num_feasible, previous);
    previous = num_feasible;
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

TEST(SearchTest, MixturesOfExpertsAreRefusedWithTheReason) {
  const SearchResult result = RunSearch(MakeTestRequest("mixtral-8x7b", "dgx-h100", 8, 64));
  EXPECT_TRUE(result.rows.empty());
  ASSERT_EQ(result.rejections.size(), 1u);  // no other layout helps: the first reason of each
  EXPECT_EQ(result.rejections[0].constraint, "mixture of experts");
  EXPECT_EQ(result.rejections[0].example.message,
            "this version does not price mixtures of experts, but the model has experts: "
            "8");
}

}  // namespace
}  // namespace tessera::planner
