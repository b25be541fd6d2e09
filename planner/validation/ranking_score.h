// Whether the model picks the right layout of a job that was measured under several.
#pragma once

#include <string>
#include <vector>

#include "planner/validation/row_result.h"

namespace tessera::planner {

// Rows of one source, framework, model, GPU, number of devices, batch, sequence length and
// precision, under at least two layouts. Rows of one layout count once, by their mean. Rows flagged
// gpu_type_inferred or known_regression_in_source_release stay out.
struct JobGroup {
  std::string name;  // "GPT-20Lx1024, 8 x A100-80GB-SXM, batch 16"
  std::string source;
  int num_layouts = 0;
  // Measured time of the layout predicted fastest over that of the fastest, less 1.
  double regret = 0;
  double rank_correlation = 0;  // Spearman's, of predicted and measured times
};

struct RankingScore {
  std::vector<JobGroup> groups;  // largest regret first
  double mean_regret = 0;
  double worst_regret = 0;
  int num_large_groups = 0;           // of kLargeGroup layouts or more
  double mean_rank_correlation = 0;   // over large groups
  double worst_rank_correlation = 0;  // over large groups
};

inline constexpr int kLargeGroup = 10;

RankingScore ScoreRanking(const std::vector<RowResult>& rows);

// Spearman's rank correlation; values that are equal share the mean of their ranks. 0 when all
// values of one side are equal. REQUIRES: as many x as y.
double SpearmanCorrelation(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace tessera::planner
