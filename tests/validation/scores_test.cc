// Scores against hand counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "planner/validation/figures.h"
#include "planner/validation/validation.h"
#include "tests/validation/test_rows.h"

namespace tessera::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ScoreErrorsTest, MeanMedianWorstAndBias) {
  const ErrorScore score = ScoreErrors({0.1, -0.3, 0.2, -0.4});
  EXPECT_EQ(score.num_rows, 4);
  EXPECT_DOUBLE_EQ(score.mean_absolute, 0.25);
  EXPECT_DOUBLE_EQ(score.median_absolute, 0.25);
  EXPECT_DOUBLE_EQ(score.worst_absolute, 0.4);
  EXPECT_DOUBLE_EQ(score.bias, -0.1);
  EXPECT_DOUBLE_EQ(ScoreErrors({0.1, -0.3, 0.2}).median_absolute, 0.2);
  EXPECT_EQ(ScoreErrors({}).num_rows, 0);
}

TEST(SpearmanTest, OrderedReversedAndTied) {
  EXPECT_DOUBLE_EQ(SpearmanCorrelation({1, 2, 3, 4}, {10, 20, 40, 80}), 1);
  EXPECT_DOUBLE_EQ(SpearmanCorrelation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  // 1 - 6 * sum of squared differences / (n (n^2 - 1)) = 1 - 6 * 2 / 60.
  EXPECT_DOUBLE_EQ(SpearmanCorrelation({1, 2, 3, 4}, {1, 2, 4, 3}), 0.8);
  // Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: 4.5 / sqrt(4.5 * 5).
  EXPECT_DOUBLE_EQ(SpearmanCorrelation({1, 2, 2, 3}, {1, 2, 3, 4}), 4.5 / std::sqrt(22.5));
  EXPECT_DOUBLE_EQ(SpearmanCorrelation({5, 5, 5}, {1, 2, 3}), 0);
}

RowResult LayoutAnswer(int tp, double predicted_s, double measured_s) {
  RowResult result = Answer("tp" + std::to_string(tp), predicted_s, measured_s);
  result.parallel.tensor_parallel_size = tp;
  return result;
}

TEST(ScoreRankingTest, RegretIsWhatThePickTakesLonger) {
  // Picks tp 2, measured at 1.1 s, where tp 4 takes 1.0 s.
  const RankingScore score =
      ScoreRanking({LayoutAnswer(1, 3, 3), LayoutAnswer(2, 1, 1.1), LayoutAnswer(4, 2, 1.0)});
  ASSERT_EQ(score.groups.size(), 1u);
  EXPECT_EQ(score.groups[0].num_layouts, 3);
  EXPECT_NEAR(score.worst_regret, 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(score.groups[0].rank_correlation, 0.5);
  EXPECT_EQ(score.num_large_groups, 0);
}

TEST(ScoreRankingTest, RowsOfOneLayoutCountOnceByTheirMean) {
  const RankingScore score =
      ScoreRanking({LayoutAnswer(1, 1, 1.0), LayoutAnswer(1, 1, 2.0), LayoutAnswer(2, 2, 1.2)});
  ASSERT_EQ(score.groups.size(), 1u);
  EXPECT_EQ(score.groups[0].num_layouts, 2);
  EXPECT_NEAR(score.worst_regret, 1.5 / 1.2 - 1, 1e-12);
}

TEST(ScoreRankingTest, ARowOfDoubtfulHardwareIsNotCompared) {
  RowResult doubtful = LayoutAnswer(2, 1, 5);
  doubtful.measurement.flags = {"gpu_type_inferred"};
  EXPECT_THAT(ScoreRanking({LayoutAnswer(1, 1, 1), doubtful}).groups, IsEmpty());
}

TEST(ScoreRankingTest, OneLayoutIsNoChoiceAndJobsStayApart) {
  RowResult other = LayoutAnswer(2, 1, 1);
  other.measurement.layout.global_batch_size = 128;
  EXPECT_THAT(ScoreRanking({LayoutAnswer(1, 1, 1), other}).groups, IsEmpty());
}

TEST(ScoreRowsTest, SkippedAndFlaggedRowsAreNotScored) {
  RowResult skipped = Answer("skipped", 0);
  skipped.skipped = "no hardware file";
  RowResult flagged = Answer("flagged", 5);
  flagged.measurement.flags = {"do_not_score"};
  const Validation validation = ScoreRows({Answer("good", 1.1), skipped, flagged});
  EXPECT_EQ(validation.total.num_rows, 3);
  EXPECT_EQ(validation.total.num_skipped, 1);
  EXPECT_EQ(validation.total.num_not_scored, 1);
  EXPECT_EQ(validation.total.step_time.num_rows, 1);
  EXPECT_NEAR(validation.total.step_time.bias, 0.1, 1e-12);
}

TEST(ScoreRowsTest, SourcesAndKindsAreScoredApart) {
  RowResult other = Answer("other", 1.2);
  other.measurement.source = "b paper";
  other.measurement.framework = "torchtitan";
  const Validation validation = ScoreRows({Answer("one", 0.9), other});
  ASSERT_EQ(validation.sources.size(), 2u);
  EXPECT_EQ(validation.sources[0].name, "a paper");
  EXPECT_NEAR(validation.sources[1].step_time.mean_absolute, 0.2, 1e-12);
  ASSERT_EQ(validation.kinds.size(), 1u);  // only the first runs Megatron
  EXPECT_EQ(validation.kinds[0].num_rows, 1);
}

TEST(ScoreRowsTest, VerdictsOnMemoryAreHeldAgainstWhatHappened) {
  RowResult ran_out = Answer("ran-out", 1);
  ran_out.measurement.ran_out_of_memory = true;
  ran_out.measurement.is_for_time = false;
  RowResult ran = Answer("ran", 1);
  ran.fits = false;
  const Validation validation = ScoreRows({ran_out, ran, Answer("fine", 1)});
  EXPECT_EQ(validation.fit.num_out_of_memory, 1);
  EXPECT_THAT(validation.fit.false_fits, ElementsAre("ran-out"));
  EXPECT_EQ(validation.fit.num_ran, 2);
  EXPECT_THAT(validation.fit.false_refusals, ElementsAre("ran"));
}

TEST(ScoreRowsTest, MemoryIsScoredByItsStatistic) {
  RowResult row = Answer("memory", 1);
  row.measurement.is_for_memory = true;
  row.measurement.peak_memory_bytes = 100;
  row.measurement.memory_class = MemoryClass::kAllocated;
  row.predicted_peak_memory_bytes = 103;
  const Validation validation = ScoreRows({row});
  ASSERT_EQ(validation.memory_by_class.count("allocated"), 1u);
  EXPECT_NEAR(validation.memory_by_class.at("allocated").mean_absolute, 0.03, 1e-12);
}

TEST(FigureBoundsTest, AFigureBeyondItsBoundIsTold) {
  const std::vector<Figure> figures = {{"error", 0.2}, {"correlation", 0.8}};
  EXPECT_THAT(FindBrokenBounds(figures, {{"error", 0.2, {}}, {"correlation", {}, 0.8}}), IsEmpty());
  EXPECT_THAT(FindBrokenBounds(figures, {{"error", 0.1, {}}}),
              ElementsAre("error is 0.2, above its bound 0.1"));
  EXPECT_THAT(FindBrokenBounds(figures, {{"correlation", {}, 0.9}}),
              ElementsAre("correlation is 0.8, below its bound 0.9"));
  EXPECT_THAT(FindBrokenBounds(figures, {{"speed", 1.0, {}}}),
              ElementsAre(HasSubstr("there is no figure")));
}

}  // namespace
}  // namespace tessera::planner
