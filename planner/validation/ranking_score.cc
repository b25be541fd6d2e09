#include "planner/validation/ranking_score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "cost_model/base/check.h"
#include "planner/validation/error_score.h"

namespace tessera::planner {
namespace {

struct LayoutTimes {
  spec::ParallelSpec parallel;
  double predicted_s = 0;
  double sum_measured_s = 0;
  int num_rows = 0;
  double MeasuredSeconds() const { return sum_measured_s / num_rows; }
};

std::string KeyOf(const Measurement& row) {
  return base::Concat(row.source, '\n', row.framework, '\n', row.model.name, '\n',
                      row.model.num_layers, '\n', row.model.hidden_size, '\n', row.hardware.gpu,
                      '\n', row.hardware.num_devices, '\n', row.hardware.inter_node, '\n',
                      row.layout.global_batch_size.value_or(0), '\n', row.model.sequence_length,
                      '\n', row.layout.precision);
}

std::string NameOf(const Measurement& row) {
  return base::Concat(row.model.name, ", ", row.hardware.num_devices, " x ", row.hardware.gpu,
                      ", batch ", row.layout.global_batch_size.value_or(0), ", sequence ",
                      row.model.sequence_length);
}

// Whether a row's source leaves no doubt that it ran the same job as its neighbours.
bool IsComparable(const Measurement& row) {
  return !row.HasFlag("gpu_type_inferred") && !row.HasFlag("known_regression_in_source_release");
}

void AddRow(const RowResult& row, std::vector<LayoutTimes>& layouts) {
  auto found = std::find_if(layouts.begin(), layouts.end(), [&](const LayoutTimes& layout) {
    return layout.parallel == row.parallel;
  });
  if (found == layouts.end()) {
    layouts.push_back({row.parallel, row.predicted_step_time_s, 0, 0});
    found = layouts.end() - 1;
  }
  found->sum_measured_s += *row.measurement.step_time_s;
  ++found->num_rows;
}

JobGroup ScoreGroup(const Measurement& first, const std::vector<LayoutTimes>& layouts) {
  JobGroup group;
  group.name = NameOf(first);
  group.source = first.source;
  group.num_layouts = static_cast<int>(layouts.size());
  std::vector<double> predicted;
  std::vector<double> measured;
  for (const LayoutTimes& layout : layouts) {
    predicted.push_back(layout.predicted_s);
    measured.push_back(layout.MeasuredSeconds());
  }
  const auto pick = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
  group.regret = measured[pick] / *std::min_element(measured.begin(), measured.end()) - 1;
  group.rank_correlation = SpearmanCorrelation(predicted, measured);
  return group;
}

// Ranks from 0, equal values sharing their mean.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

}  // namespace

double SpearmanCorrelation(const std::vector<double>& x, const std::vector<double>& y) {
  TESSERA_CHECK(x.size() == y.size(), x.size(), " values against ", y.size());
  const std::vector<double> x_ranks = RanksOf(x);
  const std::vector<double> y_ranks = RanksOf(y);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double covariance = 0;
  double x_variance = 0;
  double y_variance = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    covariance += (x_ranks[i] - mean) * (y_ranks[i] - mean);
    x_variance += (x_ranks[i] - mean) * (x_ranks[i] - mean);
    y_variance += (y_ranks[i] - mean) * (y_ranks[i] - mean);
  }
  if (x_variance == 0 || y_variance == 0) return 0;
  return covariance / std::sqrt(x_variance * y_variance);
}

RankingScore ScoreRanking(const std::vector<RowResult>& rows) {
  struct Group {
    const Measurement* first;
    std::vector<LayoutTimes> layouts;
  };
  std::map<std::string, Group> groups;
  for (const RowResult& row : rows) {
    if (!StepTimeError(row) || !IsComparable(row.measurement)) continue;
    Group& group =
        groups.try_emplace(KeyOf(row.measurement), Group{&row.measurement, {}}).first->second;
    AddRow(row, group.layouts);
  }
  RankingScore score;
  score.worst_rank_correlation = 1;
  for (const auto& [key, group] : groups) {
    if (group.layouts.size() < 2) continue;
    score.groups.push_back(ScoreGroup(*group.first, group.layouts));
    const JobGroup& added = score.groups.back();
    score.mean_regret += added.regret;
    score.worst_regret = std::max(score.worst_regret, added.regret);
    if (added.num_layouts < kLargeGroup) continue;
    ++score.num_large_groups;
    score.mean_rank_correlation += added.rank_correlation;
    score.worst_rank_correlation = std::min(score.worst_rank_correlation, added.rank_correlation);
  }
  if (!score.groups.empty()) score.mean_regret /= static_cast<double>(score.groups.size());
  if (score.num_large_groups > 0) score.mean_rank_correlation /= score.num_large_groups;
  std::stable_sort(score.groups.begin(), score.groups.end(),
                   [](const JobGroup& a, const JobGroup& b) { return a.regret > b.regret; });
  return score;
}

}  // namespace tessera::planner
