// A point looked at closely.
#include <gtest/gtest.h>

#include "planner/what_if/details.h"
#include "tests/planner/test_requests.h"

namespace tessera::planner {
namespace {

WhatIfPoint SearchedPipeline() {
  WhatIfPoint point;
  point.asked.request = MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 8, 64);
  point.asked.request.pins.pipeline_parallel_size = 4;
  cost_model::JobCosts costs(point.job());
  SearchResult search = SearchBest(point.asked.request, costs);
  point.found.is_done = true;
  point.found.best = std::move(search.rows.front());
  return point;
}

TEST(WhatIfDetailsTest, EveryPassOfThePipelineIsThereWithinTheStep) {
  const WhatIfPoint point = SearchedPipeline();
  const Detail detail = DetailOf(point);
  const spec::ParallelSpec& parallel = point.found.best->parallel;
  ASSERT_EQ(detail.passes.size(), 4U);
  const auto num_microbatches = static_cast<size_t>(
      spec::NumMicrobatches(point.job().training, parallel) * parallel.virtual_pipeline_size);
  EXPECT_GE(detail.num_passes, 4 * 2 * num_microbatches);  // forward and backward
  for (const auto& stage : detail.passes) {
    EXPECT_EQ(stage.size(), detail.num_passes / 4);
    for (const spec::TimedAction& pass : stage) {
      EXPECT_LE(pass.start_s, pass.end_s);
      EXPECT_LE(pass.end_s, detail.step_time_s * (1 + 1e-9));
      EXPECT_LE(pass.end_s, detail.shown_until_s);
    }
  }
  ASSERT_EQ(detail.stages.size(), 4U);
  for (const spec::StageMemory& stage : detail.stages) {
    int64_t sum_bytes = 0;
    for (const spec::MemoryTerm& term : stage.terms) sum_bytes += term.num_bytes;
    EXPECT_EQ(sum_bytes, stage.Used());
  }
}

TEST(WhatIfDetailsTest, OfMorePassesThanCanBeShownTheFirstAre) {
  const Detail all = DetailOf(SearchedPipeline());
  const size_t num_shown = all.num_passes / 3;
  const Detail some = DetailOf(SearchedPipeline(), num_shown);
  EXPECT_EQ(some.num_passes, all.num_passes);
  EXPECT_LT(some.shown_until_s, all.shown_until_s);
  size_t num_there = 0;
  for (const auto& stage : some.passes) num_there += stage.size();
  EXPECT_GE(num_there, num_shown);  // more where several end at the same moment
  EXPECT_LT(num_there, num_shown + 16);
}

}  // namespace
}  // namespace tessera::planner
