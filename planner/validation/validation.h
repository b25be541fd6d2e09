// Re-prices published measurements and scores the cost model on them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/validation/error_score.h"
#include "planner/validation/ranking_score.h"
#include "planner/validation/row_result.h"

namespace tessera::planner {

// Of the rows of one source, or of one kind.
struct RowsScore {
  std::string name;
  int64_t num_rows = 0;
  int64_t num_skipped = 0;
  int64_t num_not_scored = 0;  // priced, but flagged do_not_score
  ErrorScore step_time;
  ErrorScore memory;
};

// Answers to "does it fit?" against what happened.
struct FitScore {
  int64_t num_out_of_memory = 0;        // rows that ran out of memory
  std::vector<std::string> false_fits;  // ids: ran out of memory, predicted to fit
  int64_t num_ran = 0;
  std::vector<std::string> false_refusals;  // ids: ran, predicted not to fit
};

struct Validation {
  std::vector<RowResult> rows;
  RowsScore total;
  std::vector<RowsScore> sources;  // by name
  // Kinds of rows; a row may be of several, or of none.
  std::vector<RowsScore> kinds;
  std::map<std::string, ErrorScore> memory_by_class;
  RankingScore ranking;
  FitScore fit;
};

Validation Validate(const std::vector<Measurement>& measurements, JobMaker& jobs);

// Scores rows that are priced already.
Validation ScoreRows(std::vector<RowResult> rows);

}  // namespace tessera::planner
