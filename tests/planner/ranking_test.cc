#include "planner/ranking.h"

#include <gtest/gtest.h>

namespace tessera::planner {
namespace {

spec::ParallelSpec Chunked(int num_chunks) {
  spec::ParallelSpec parallel;
  parallel.virtual_pipeline_size = num_chunks;
  return parallel;
}

std::vector<int> ChunksOfRows(const std::vector<Ranking::Entry>& entries) {
  const Request request;
  Ranking ranking(request, 10, 1);
  for (const Ranking::Entry& entry : entries) ranking.Add(entry);
  std::vector<int> chunks;
  for (const spec::ParallelSpec& row : ranking.TakeRows()) {
    chunks.push_back(row.virtual_pipeline_size);
  }
  return chunks;
}

// Layouts come plainest first, so that the earlier of equals is the plainer.
TEST(RankingTest, TheEarlierLayoutWinsOverOneThatIsFasterByRoundingAlone) {
  const double time_s = 0.20248364999489232;
  const double rounded_s = 0.20248364999489235;
  const Ranking::Entry plain{.parallel = Chunked(1), .step_time_s = rounded_s, .order = 1};
  const Ranking::Entry chunked{.parallel = Chunked(2), .step_time_s = time_s, .order = 2};
  EXPECT_EQ(ChunksOfRows({plain, chunked}), (std::vector<int>{1, 2}));
  EXPECT_EQ(ChunksOfRows({chunked, plain}), (std::vector<int>{1, 2}));
}

TEST(RankingTest, AnythingMoreThanRoundingDecides) {
  for (const double time_s : {3e-4, 0.2, 17.5, 1240.0}) {
    const Ranking::Entry plain{
        .parallel = Chunked(1), .step_time_s = time_s * (1 + 1e-9), .order = 1};
    const Ranking::Entry chunked{.parallel = Chunked(2), .step_time_s = time_s, .order = 2};
    EXPECT_EQ(ChunksOfRows({plain, chunked}), (std::vector<int>{2, 1})) << time_s;
  }
}

}  // namespace
}  // namespace tessera::planner
