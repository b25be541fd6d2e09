// Best practice, explanation, repairs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/answer_text.h"
#include "planner/explanation.h"
#include "planner/search_space.h"
#include "tests/planner/test_requests.h"

namespace tessera::planner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::optional<BestPractice> Practice(const Request& request) {
  cost_model::JobCosts costs(request.job);
  return PriceBestPractice(request, costs);
}

TEST(BestPracticeTest, TheTableHasTheUsualRows) {
  struct Row {
    int num_devices, tp, pp, dp;
    const char* model;
  };
  for (const Row& row : {Row{8, 8, 1, 1, "llama2-13b"}, Row{16, 8, 2, 1, "llama2-13b"},
                         Row{32, 8, 4, 1, "llama2-70b"}, Row{64, 8, 4, 2, "llama2-70b"},
                         Row{1024, 8, 4, 32, "gpt3-175b"}}) {
    const auto practice =
        Practice(MakeTestRequest(row.model, "dgx-a100-80gb", row.num_devices, 1024));
    ASSERT_TRUE(practice.has_value());
    EXPECT_EQ(practice->tensor_parallel_size, row.tp);
    EXPECT_EQ(practice->pipeline_parallel_size, row.pp);
    ASSERT_TRUE(practice->layout.has_value()) << row.num_devices << " devices";
    EXPECT_EQ(practice->layout->parallel.data_parallel_size, row.dp);
    EXPECT_GT(practice->layout->report.step_time_s, 0);
  }
}

TEST(BestPracticeTest, ARowThatDoesNotFitSaysWhy) {
  const auto practice = Practice(MakeTestRequest("gpt3-175b", "dgx-a100-80gb", 16, 64));
  ASSERT_TRUE(practice.has_value());
  EXPECT_FALSE(practice->layout.has_value());
  ASSERT_FALSE(practice->violations.empty());
  EXPECT_EQ(practice->violations[0].constraint, "device memory");
  EXPECT_GT(practice->violations[0].needed, practice->violations[0].available);
  EXPECT_THAT(BestPracticeText(*practice), HasSubstr("infeasible by device memory: the fullest"));
}

TEST(BestPracticeTest, ARowThatTheDevicesDoNotFillSaysWhy) {
  const auto practice = Practice(MakeTestRequest("llama2-13b", "dgx-a100-80gb", 24, 48));
  ASSERT_TRUE(practice.has_value());
  EXPECT_FALSE(practice->layout.has_value());
  EXPECT_THAT(BestPracticeText(*practice), HasSubstr("infeasible by devices % (tp * cp * pp)"));
}

TEST(BestPracticeTest, APoolHasNone) {
  EXPECT_FALSE(Practice(MakeTestRequest("gpt2-124m", "local-cpu", 8, 8)).has_value());
}

TEST(ExplanationTest, DifferencesNameTheLargestTermsFirst) {
  const spec::TimeBreakdown chosen{.forward_s = 2, .tp_comm_s = 1, .bubble_s = 3};
  const spec::TimeBreakdown other{.forward_s = 2, .tp_comm_s = 4, .bubble_s = 2};
  EXPECT_EQ(DifferenceText(chosen, other),
            "3.00 s less tensor-parallel communication, 1.00 s more pipeline bubble");
  EXPECT_EQ(DifferenceText(chosen, chosen), "the same time everywhere");
}

TEST(ExplanationTest, SaysWhyWhatLimitsAndWhatTheTableHolds) {
  const Request request = MakeTestRequest("gpt3-175b", "dgx-a100-80gb", 1024, 1536);
  cost_model::JobCosts costs(request.job);
  const SearchResult search = Search(request, costs);
  const auto practice = PriceBestPractice(request, costs);
  const std::vector<std::string> sentences = Explain(request, search, practice);
  EXPECT_THAT(sentences, Contains(HasSubstr("Choice: ")));
  EXPECT_THAT(sentences, Contains(HasSubstr("Why this mesh: ")));
  EXPECT_THAT(sentences, Contains(HasSubstr("What limits it: ")));
  EXPECT_THAT(sentences, Contains(HasSubstr("Memory: the fullest stage")));
  EXPECT_THAT(sentences, Contains(HasSubstr("The best-practice table says TP 8, PP 4")));
}

TEST(RepairsTest, MoreDevicesAreNamedWhereTheModelDoesNotFit) {
  const Request request = MakeTestRequest("gpt3-175b", "dgx-a100-80gb", 8, 64);
  const std::vector<Repair> repairs = FindRepairs(request);
  ASSERT_EQ(repairs.size(), 1u);  // nothing is pinned: no other change can help
  EXPECT_GT(repairs[0].num_devices, 8);
  EXPECT_THAT(RepairsText(repairs), HasSubstr(" devices: tp "));
}

TEST(RepairsTest, EachRepairFits) {
  Request request = MakeTestRequest("gpt3-13b", "dgx-a100-80gb", 8, 64);
  request.fixed.attention = spec::AttentionKind::kUnfused;
  request.pins.tensor_parallel_size = 2;
  request.pins.pipeline_parallel_size = 1;
  request.pins.micro_batch_size = 8;
  PinLayout(PlainLayout(request), request);
  cost_model::JobCosts costs(request.job);
  EXPECT_TRUE(Search(request, costs).rows.empty());
  const std::vector<Repair> repairs = FindRepairs(request);
  ASSERT_FALSE(repairs.empty());
  EXPECT_LE(repairs.size(), kNumRepairs);
  double previous_s = 0;
  for (const Repair& repair : repairs) {
    const double device_seconds = repair.num_devices * repair.layout.report.step_time_s;
    EXPECT_GE(device_seconds, previous_s);
    previous_s = device_seconds;
    EXPECT_GT(repair.layout.report.step_time_s, 0);
    EXPECT_LE(repair.layout.report.peak_bytes, request.job.cluster.device.memory_bytes);
  }
  EXPECT_THAT(RepairsText(repairs, 2 * previous_s), HasSubstr("against the layout given"));
}

TEST(RepairsTest, ABatchThatDividesIsFound) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 8, 30);
  PinLayout(PlainLayout(request), request);  // 8 replicas
  const std::vector<Repair> repairs = FindRepairs(request);
  std::vector<std::string> changes;
  for (const Repair& repair : repairs) changes.push_back(repair.change);
  EXPECT_THAT(changes, Contains("global batch size 32"));
}

}  // namespace
}  // namespace tessera::planner
