#include "planner/validation/validation.h"

#include <functional>

namespace tessera::planner {
namespace {

bool IsMegatronDense(const Measurement& row) {
  return row.framework.find("Megatron") != std::string::npos && !row.model.num_experts &&
         row.hardware.num_devices > 1 && !row.HasFlag("single_node_small_model");
}

// The table shows one model replica each; other rows of the paper are data-parallel.
bool IsKorthikantiTable5(const Measurement& row) {
  return row.source.find("2205.05198") != std::string::npos &&
         row.layout.data_parallel_size.value_or(1) == 1;
}

struct Kind {
  const char* name;
  std::function<bool(const Measurement&)> holds;
};

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kKinds = {
      {"Megatron-style dense, multi-device", IsMegatronDense},
      {"arXiv:2205.05198 table 5", IsKorthikantiTable5},
      {"small models on one node",
       [](const Measurement& row) { return row.HasFlag("single_node_small_model"); }},
      {"mixture of experts",
       [](const Measurement& row) { return row.model.num_experts.has_value(); }},
      {"context parallel",
       [](const Measurement& row) { return row.layout.context_parallel_size > 1; }},
      {"sharded parameters (ZeRO-3, FSDP)",
       [](const Measurement& row) { return row.layout.zero_stage == 3; }},
      {"8 or 4 bits",
       [](const Measurement& row) {
         return row.layout.precision.find("fp16") == std::string::npos &&
                row.layout.precision.find("fp") != std::string::npos &&
                row.layout.precision != "fp32";
       }},
      {"quality A", [](const Measurement& row) { return row.quality == "A"; }},
  };
  return kKinds;
}

RowsScore Score(const std::string& name, const std::vector<const RowResult*>& rows) {
  RowsScore score;
  score.name = name;
  std::vector<double> time_errors;
  std::vector<double> memory_errors;
  for (const RowResult* row : rows) {
    ++score.num_rows;
    if (!row->is_priced()) ++score.num_skipped;
    if (row->is_priced() && !IsScored(*row)) ++score.num_not_scored;
    if (const auto error = StepTimeError(*row)) time_errors.push_back(*error);
    if (const auto error = MemoryError(*row)) memory_errors.push_back(*error);
  }
  score.step_time = ScoreErrors(time_errors);
  score.memory = ScoreErrors(memory_errors);
  return score;
}

std::map<std::string, ErrorScore> ScoreMemoryByClass(const std::vector<RowResult>& rows) {
  std::map<std::string, std::vector<double>> errors;
  for (const RowResult& row : rows) {
    if (const auto error = MemoryError(row)) {
      errors[std::string(ToString(row.measurement.memory_class))].push_back(*error);
    }
  }
  std::map<std::string, ErrorScore> scores;
  for (const auto& [name, values] : errors) scores[name] = ScoreErrors(values);
  return scores;
}

FitScore ScoreFit(const std::vector<RowResult>& rows) {
  FitScore score;
  for (const RowResult& row : rows) {
    if (!IsScored(row)) continue;
    if (row.measurement.ran_out_of_memory) {
      ++score.num_out_of_memory;
      if (row.fits) score.false_fits.push_back(row.measurement.id);
    } else {
      ++score.num_ran;
      if (!row.fits) score.false_refusals.push_back(row.measurement.id);
    }
  }
  return score;
}

}  // namespace

Validation ScoreRows(std::vector<RowResult> rows) {
  Validation validation;
  validation.rows = std::move(rows);
  std::map<std::string, std::vector<const RowResult*>> by_source;
  std::vector<const RowResult*> all;
  for (const RowResult& row : validation.rows) {
    by_source[row.measurement.source].push_back(&row);
    all.push_back(&row);
  }
  for (const auto& [source, members] : by_source) {
    validation.sources.push_back(Score(source, members));
  }
  validation.total = Score("all rows", all);
  for (const Kind& kind : Kinds()) {
    std::vector<const RowResult*> members;
    for (const RowResult* row : all) {
      if (kind.holds(row->measurement)) members.push_back(row);
    }
    if (!members.empty()) validation.kinds.push_back(Score(kind.name, members));
  }
  validation.memory_by_class = ScoreMemoryByClass(validation.rows);
  validation.ranking = ScoreRanking(validation.rows);
  validation.fit = ScoreFit(validation.rows);
  return validation;
}

Validation Validate(const std::vector<Measurement>& measurements, JobMaker& jobs) {
  std::vector<RowResult> rows;
  rows.reserve(measurements.size());
  for (const Measurement& measurement : measurements) rows.push_back(PriceRow(measurement, jobs));
  return ScoreRows(std::move(rows));
}

}  // namespace tessera::planner
