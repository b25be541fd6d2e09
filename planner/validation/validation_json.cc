#include "planner/validation/validation_json.h"

#include <nlohmann/json.hpp>

#include "cost_model/spec/plan_json.h"
#include "planner/validation/figures.h"

namespace tessera::planner {
namespace {

using nlohmann::ordered_json;

ordered_json RowToJson(const RowResult& row) {
  const Measurement& measurement = row.measurement;
  ordered_json json = {{"id", measurement.id}, {"source", measurement.source}};
  if (measurement.step_time_s) json["measured_step_time_s"] = *measurement.step_time_s;
  if (measurement.peak_memory_bytes) {
    json["measured_peak_memory_bytes"] = *measurement.peak_memory_bytes;
    json["memory_class"] = ToString(measurement.memory_class);
  }
  if (measurement.ran_out_of_memory) json["outcome"] = "oom";
  if (!row.is_priced()) {
    json["skipped"] = row.skipped;
    return json;
  }
  json["scored"] = IsScored(row);
  json["predicted_step_time_s"] = row.predicted_step_time_s;
  json["predicted_peak_memory_bytes"] = row.predicted_peak_memory_bytes;
  json["fits"] = row.fits;
  if (const auto error = StepTimeError(row)) json["step_time_error"] = *error;
  if (const auto error = MemoryError(row)) json["memory_error"] = *error;
  json["runtime"] = row.runtime;
  json["cluster"] = row.cluster;
  json["assumed"] = row.assumed;
  json["layout"] = spec::ParallelToJson(row.parallel);
  const ordered_json report = spec::StepReportToJson(row.report);
  json["memory"] = report["memory"];
  json["time"] = report["time"];
  json["compute"] = report["compute"];
  return json;
}

ordered_json ErrorsToJson(const ErrorScore& score) {
  ordered_json json = {{"num_rows", score.num_rows}};
  if (score.num_rows == 0) return json;
  json["mean_absolute_error"] = score.mean_absolute;
  json["median_absolute_error"] = score.median_absolute;
  json["worst_absolute_error"] = score.worst_absolute;
  json["bias"] = score.bias;
  return json;
}

ordered_json RowsScoreToJson(const RowsScore& score) {
  return {{"name", score.name},
          {"num_rows", score.num_rows},
          {"num_skipped", score.num_skipped},
          {"num_not_scored", score.num_not_scored},
          {"step_time", ErrorsToJson(score.step_time)},
          {"memory", ErrorsToJson(score.memory)}};
}

ordered_json RowsScoresToJson(const std::vector<RowsScore>& scores) {
  ordered_json list = ordered_json::array();
  for (const RowsScore& score : scores) list.push_back(RowsScoreToJson(score));
  return list;
}

ordered_json RankingToJson(const RankingScore& ranking) {
  ordered_json groups = ordered_json::array();
  for (const JobGroup& group : ranking.groups) {
    groups.push_back({{"name", group.name},
                      {"source", group.source},
                      {"num_layouts", group.num_layouts},
                      {"regret", group.regret},
                      {"rank_correlation", group.rank_correlation}});
  }
  return {{"num_groups", ranking.groups.size()},
          {"mean_regret", ranking.mean_regret},
          {"worst_regret", ranking.worst_regret},
          {"num_large_groups", ranking.num_large_groups},
          {"mean_rank_correlation", ranking.mean_rank_correlation},
          {"worst_rank_correlation", ranking.worst_rank_correlation},
          {"groups", std::move(groups)}};
}

}  // namespace

ordered_json ValidationToJson(const Validation& validation,
                              const std::vector<std::string>* broken_bounds) {
  ordered_json rows = ordered_json::array();
  for (const RowResult& row : validation.rows) rows.push_back(RowToJson(row));
  ordered_json memory = ordered_json::object();
  for (const auto& [name, score] : validation.memory_by_class) memory[name] = ErrorsToJson(score);
  ordered_json figures = ordered_json::object();
  for (const Figure& figure : FiguresOf(validation)) figures[figure.name] = figure.value;
  const FitScore& fit = validation.fit;
  ordered_json json = {{"rows", std::move(rows)},
                       {"total", RowsScoreToJson(validation.total)},
                       {"sources", RowsScoresToJson(validation.sources)},
                       {"kinds", RowsScoresToJson(validation.kinds)},
                       {"memory", std::move(memory)},
                       {"ranking", RankingToJson(validation.ranking)},
                       {"fit",
                        {{"num_out_of_memory", fit.num_out_of_memory},
                         {"false_fits", fit.false_fits},
                         {"num_ran", fit.num_ran},
                         {"false_refusals", fit.false_refusals}}},
                       {"figures", std::move(figures)}};
  if (broken_bounds != nullptr) json["broken_bounds"] = *broken_bounds;
  return json;
}

}  // namespace tessera::planner
