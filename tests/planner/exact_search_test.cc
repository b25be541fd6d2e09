// The pruned search against pricing everything, and what must hold of the best plan.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "planner/layout_text.h"
#include "planner/search.h"
#include "planner/search_bounds.h"
#include "planner/search_space.h"
#include "tests/planner/test_requests.h"

namespace tessera::planner {
namespace {

constexpr double kNothing = std::numeric_limits<double>::infinity();

Request SmallRequest(std::mt19937& random) {
  static constexpr const char* kModels[] = {"gpt3-1.3b", "gpt2-774m", "llama3.2-1b", "gpt3-2.7b"};
  static constexpr const char* kClusters[] = {"dgx-a100-40gb", "dgx1-v100", "dgx-h100"};
  Request request = MakeTestRequest(kModels[random() % 4], kClusters[random() % 3],
                                    4 << random() % 2, 8 << random() % 2);
  request.job.training.precision = spec::Precision::kFp16;
  request.job.training.sequence_length = 1024;
  request.job.model.num_layers = 4 + static_cast<int>(random() % 5);
  request.job.runtime.schedules.emplace_back("zb-h1");
  request.job.runtime.per_stage_recompute = random() % 2 == 0;
  // Sometimes a tight fit.
  request.job.cluster.device.memory_bytes >>= random() % 5;
  if (random() % 3 == 0) request.fixed.attention = spec::AttentionKind::kUnfused;
  // Selective recomputation that spares something beside flash attention too.
  request.job.runtime.keeps_alternate_products = random() % 2 == 0;
  return request;
}

// The least step time of all layouts that fit, every one of them priced in full; of those that
// recompute some layers, each number of them.
double BestByPricingAll(const Request& request, cost_model::JobCosts& costs) {
  double best_s = kNothing;
  const auto price = [&](const spec::ParallelSpec& layout) {
    if (FindRuleViolation(request, layout)) return;
    const cost_model::StepPrice priced = PriceLayout(request, layout, costs);
    if (priced.violations.empty()) best_s = std::min(best_s, priced.report.step_time_s);
  };
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    price(layout);
    if (layout.recompute != spec::Recompute::kFull) return;
    spec::ParallelSpec some = layout;
    const int num_stages = layout.pipeline_parallel_size * layout.virtual_pipeline_size;
    for (int n = 1; n < request.job.model.num_layers / num_stages + 3; ++n) {
      SetRecompute(request, RecomputeChoice::kSome, n, some);
      price(some);
    }
  });
  return best_s;
}

TEST(ExactSearchTest, NothingIsFasterThanItsFirstRow) {
  std::mt19937 random(23);
  for (int trial = 0; trial < 6; ++trial) {
    const Request request = SmallRequest(random);
    cost_model::JobCosts costs(request.job);
    const double best_s = BestByPricingAll(request, costs);
    const SearchResult result = Search(request, costs);
    const std::string job = RequestText(request);
    ASSERT_EQ(result.rows.empty(), best_s == kNothing) << job;
    if (result.rows.empty()) continue;
    const double found_s = result.rows.front().report.step_time_s;
    // Where stages may recompute other numbers of layers each, the search has more to choose from.
    if (request.job.runtime.per_stage_recompute) {
      EXPECT_LE(found_s, best_s * (1 + 1e-8)) << job;
    } else {
      EXPECT_NEAR(found_s / best_s, 1, 1e-8) << job;
    }
    EXPECT_EQ(SearchBest(request, costs).rows.front().report.step_time_s, found_s) << job;
  }
}

TEST(ExactSearchTest, APoolWithTooFewCoresIsNoException) {
  Request request = MakeTestRequest("gpt2-124m", "local-cpu", 4, 8);
  request.job.training.sequence_length = 256;
  cost_model::JobCosts costs(request.job);
  const double best_s = BestByPricingAll(request, costs);
  EXPECT_NEAR(Search(request, costs).rows.front().report.step_time_s / best_s, 1, 1e-8);
}

TEST(SearchBoundsTest, NeverExceedTheExactPrice) {
  std::mt19937 random(29);
  for (int trial = 0; trial < 6; ++trial) {
    const Request request = SmallRequest(random);
    cost_model::JobCosts costs(request.job);
    ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
      if (random() % 16 != 0 || FindRuleViolation(request, layout)) return;
      const cost_model::StepPrice exact = PriceLayout(request, layout, costs);
      const cost_model::FastPrice fast = cost_model::PriceStepFast(costs, layout);
      const std::string text = LayoutText(layout);
      EXPECT_LE(StepTimeBound(costs, layout), exact.report.step_time_s * (1 + 1e-12)) << text;
      const PartitionBound bound = PartitionTimeBound(costs, layout);
      const auto fewest = FewestLayers(
          request.job.model, layout,
          PartitionsOf(request, layout.pipeline_parallel_size * layout.virtual_pipeline_size));
      const double end_s = EndTimeBound(costs, layout, fewest, bound.first_backward_s);
      EXPECT_LE(bound.time_s + end_s, exact.report.step_time_s * (1 + 1e-9)) << text;
      EXPECT_LE(ExactTimeBound(costs, fast.step_time_s), exact.report.step_time_s) << text;
      EXPECT_LE(NeededBound(costs, layout, fewest),
                NeededBytesOf(request, {layout, exact.report}) * (1 + 1e-9))
          << text;
      EXPECT_DOUBLE_EQ(fast.needed_bytes, NeededBytesOf(request, {layout, exact.report})) << text;
    });
  }
}

double BestSeconds(const Request& request) {
  cost_model::JobCosts costs(request.job);
  const SearchResult result = SearchBest(request, costs);
  return result.rows.empty() ? kNothing : result.rows.front().report.step_time_s;
}

TEST(ExactSearchTest, ABetterMachineIsNeverSlower) {
  const Request request = MakeTestRequest("gpt3-13b", "dgx-a100-40gb", 32, 128);
  const double plain_s = BestSeconds(request);
  const auto with = [&](auto change) {
    Request better = request;
    change(better.job.cluster);
    return BestSeconds(better);
  };
  constexpr double kRounding = 1 + 1e-9;
  for (const double factor : {1.1, 2.0, 8.0}) {
    EXPECT_LE(with([&](auto& c) { c.inter_node.bandwidth_bytes_per_s *= factor; }),
              plain_s * kRounding);
    EXPECT_LE(with([&](auto& c) { c.intra_node.bandwidth_bytes_per_s *= factor; }),
              plain_s * kRounding);
    EXPECT_LE(with([&](auto& c) { c.inter_node.latency_s /= factor; }), plain_s * kRounding);
    EXPECT_LE(with([&](auto& c) {
                c.device.memory_bytes =
                    static_cast<int64_t>(factor * static_cast<double>(c.device.memory_bytes));
              }),
              plain_s * kRounding);
    EXPECT_LE(with([&](auto& c) { c.device.memory_bandwidth_bytes_per_s *= factor; }),
              plain_s * kRounding);
  }
}

TEST(ExactSearchTest, PinsNeverMakeTheBestFaster) {
  const Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-40gb", 16, 64);
  const double free_s = BestSeconds(request);
  const auto pinned = [&](auto pin) {
    Request changed = request;
    pin(changed.pins);
    return BestSeconds(changed);
  };
  EXPECT_GE(pinned([](PinnedAxes& pins) { pins.tensor_parallel_size = 8; }), free_s);
  EXPECT_GE(pinned([](PinnedAxes& pins) { pins.pipeline_parallel_size = 4; }), free_s);
  EXPECT_GE(pinned([](PinnedAxes& pins) { pins.micro_batch_size = 1; }), free_s);
  EXPECT_GE(pinned([](PinnedAxes& pins) { pins.zero_stage = 0; }), free_s);
  EXPECT_GE(pinned([](PinnedAxes& pins) { pins.recompute = spec::Recompute::kFull; }), free_s);
}

TEST(ExactSearchTest, PartsSumToTheStepAndMemoryGrowsWithTheMicrobatch) {
  std::mt19937 random(31);
  const Request request = SmallRequest(random);
  cost_model::JobCosts costs(request.job);
  for (const RankedLayout& row : Search(request, costs).rows) {
    EXPECT_NEAR(row.report.time.Total() / row.report.step_time_s, 1, 1e-12);
  }
  const Request large = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 4, 64);
  cost_model::JobCosts large_costs(large.job);
  spec::ParallelSpec layout = PlainLayout(large);
  int64_t previous_bytes = 0;
  for (const int64_t micro_batch_size : {1, 2, 4, 8}) {
    layout.micro_batch_size = micro_batch_size;
    const int64_t bytes = PriceLayout(large, layout, large_costs).report.peak_bytes;
    EXPECT_GT(bytes, previous_bytes);
    previous_bytes = bytes;
  }
}

TEST(ExactSearchTest, TheMemoryObjectiveLeavesMostWithinTheSlack) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-40gb", 8, 32);
  cost_model::JobCosts costs(request.job);
  const RankedLayout fastest = Search(request, costs).rows.front();
  request.objective = Objective::kMemory;
  request.slack_share = 0.05;
  const RankedLayout leanest = Search(request, costs).rows.front();
  EXPECT_LE(leanest.report.step_time_s, fastest.report.step_time_s * 1.05);
  EXPECT_LE(NeededBytesOf(request, leanest), NeededBytesOf(request, fastest));
  double least_bytes = kNothing;
  ForEachLayout(request, [&](const spec::ParallelSpec& layout) {
    if (FindRuleViolation(request, layout)) return;
    const cost_model::StepPrice price = PriceLayout(request, layout, costs);
    if (price.report.step_time_s > fastest.report.step_time_s * 1.05) return;
    least_bytes = std::min(least_bytes, NeededBytesOf(request, {layout, price.report}));
  });
  EXPECT_DOUBLE_EQ(NeededBytesOf(request, leanest), least_bytes);
}

TEST(TargetTest, NothingIsRecommendedThatTheTargetCannotRun) {
  Request request = MakeTestRequest("gpt3-1.3b", "dgx-a100-40gb", 8, 32);
  request.job.runtime.name = "plain";
  request.job.runtime.schedules = {"1f1b"};
  request.target.zero_stages = {0};
  request.job.runtime.uneven_stages = false;
  cost_model::JobCosts costs(request.job);
  const SearchResult result = Search(request, costs);
  ASSERT_FALSE(result.rows.empty());
  for (const RankedLayout& row : result.rows) {
    EXPECT_EQ(row.parallel.virtual_pipeline_size, 1);
    EXPECT_TRUE(row.parallel.layers_per_virtual_stage.empty());
    if (row.parallel.data_parallel_size > 1) {
      EXPECT_EQ(row.parallel.zero_stage, 0);
    }
  }
  bool names_schedule = false;
  for (const Rejection& rejection : result.rejections) {
    names_schedule = names_schedule || rejection.constraint == "target schedule";
  }
  EXPECT_TRUE(names_schedule);
}

}  // namespace
}  // namespace tessera::planner
