// Rounds of a pipeline that repeat themselves. While the pipeline is full, each round (interleaved:
// each group of rounds) is the same map of the stages' times, built of max and + alone. Such a map
// commutes with a shift of all times, so once the times equal earlier ones but for a shift, all
// later rounds repeat that shift and need not be played. Internal to the fast pipeline times.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "cost_model/pipeline_simulator.h"

namespace tessera::cost_model {

inline constexpr double kNever = -std::numeric_limits<double>::infinity();

// The last rows of times, all of one length, to find one that repeats.
class RowHistory {
 public:
  // The longest loop of a pipeline that can set its pace takes in as many rows as there are stages.
  explicit RowHistory(int num_stages) : num_kept_(num_stages + 1) {}

  void Add(const std::vector<double>& row) {
    width_ = row.size();
    rows_.resize(num_kept_ * width_);
    std::copy(row.begin(), row.end(), Row(num_rows_));
    ++num_rows_;
  }

  struct Repeat {
    int lag = 0;  // in rows; 0: none found
    double shift_s = 0;
  };
  // How the newest row repeats an earlier one.
  Repeat Find() const {
    const double* newest = Row(num_rows_ - 1);
    for (int lag = 1; lag < num_kept_ && lag < num_rows_; ++lag) {
      const double* earlier = Row(num_rows_ - 1 - lag);
      const double shift_s = newest[0] - earlier[0];
      if (IsShifted(earlier, newest, shift_s)) return {lag, shift_s};
    }
    return {};
  }

 private:
  double* Row(int row) { return rows_.data() + row % num_kept_ * width_; }
  const double* Row(int row) const { return rows_.data() + row % num_kept_ * width_; }

  bool IsShifted(const double* earlier, const double* later, double shift_s) const {
    // Far above the rounding of a few hundred additions, far below any cost that matters.
    constexpr double kTolerance = 1e-13;
    for (size_t i = 1; i < width_; ++i) {
      if (earlier[i] == later[i] && earlier[i] == kNever) continue;
      const double difference_s = later[i] - earlier[i] - shift_s;
      if (std::abs(difference_s) > kTolerance * later[i]) return false;
    }
    return true;
  }

  int num_kept_;
  size_t width_ = 0;
  int num_rows_ = 0;
  std::vector<double> rows_;
};

inline void Shift(std::vector<double>& times_s, double shift_s) {
  for (double& time_s : times_s) time_s += shift_s;
}

inline PipelineTime FromStageEnds(std::vector<double> stage_end_s) {
  PipelineTime time;
  time.makespan_s = *std::max_element(stage_end_s.begin(), stage_end_s.end());
  time.stage_end_s = std::move(stage_end_s);
  return time;
}

}  // namespace tessera::cost_model
