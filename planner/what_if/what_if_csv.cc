#include "planner/what_if/what_if_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <vector>

#include "planner/layout_text.h"

namespace tessera::planner {
namespace {

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted(1, '"');
  for (const char character : text) {
    if (character == '"') quoted += '"';
    quoted += character;
  }
  quoted += '"';
  return quoted;
}

// As short as reads back the same.
std::string Number(double value) {
  if (!std::isfinite(value)) return "";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

struct Column {
  const char* name;
  std::function<std::string(const WhatIfPoint&)> cell;
};

// What the jobs were.
void AddJob(std::vector<Column>& columns) {
  const auto add = [&](const char* name, auto value) { columns.push_back({name, value}); };
  add("id", [](const WhatIfPoint& p) { return std::to_string(p.found.id); });
  add("model", [](const WhatIfPoint& p) { return Quoted(p.job().model.name); });
  add("cluster", [](const WhatIfPoint& p) { return Quoted(p.job().cluster.name); });
  add("variant", [](const WhatIfPoint& p) { return Quoted(p.asked.variant); });
  add("devices", [](const WhatIfPoint& p) { return std::to_string(p.job().num_devices); });
  add("global_batch_size_samples",
      [](const WhatIfPoint& p) { return std::to_string(p.job().training.global_batch_size); });
  add("sequence_length_tokens",
      [](const WhatIfPoint& p) { return std::to_string(p.job().training.sequence_length); });
  add("feasible", [](const WhatIfPoint& p) { return p.found.best ? "true" : "false"; });
  add("reason", [](const WhatIfPoint& p) { return Quoted(p.found.reason); });
}

void AddReport(std::vector<Column>& columns) {
  const auto add = [&](const char* name, double (*value)(const spec::StepReport&)) {
    columns.push_back({name, [value](const WhatIfPoint& point) {
                         return point.found.best ? Number(value(point.found.best->report))
                                                 : std::string();
                       }});
  };
  using Report = spec::StepReport;
  add("step_time_s", [](const Report& r) { return r.step_time_s; });
  add("tokens_per_s", [](const Report& r) { return r.tokens_per_s; });
  add("tokens_per_s_per_device", [](const Report& r) { return r.tokens_per_s_per_device; });
  add("model_tflops_per_device", [](const Report& r) { return r.model_tflops_per_device; });
  add("mfu_share", [](const Report& r) { return r.mfu; });
  add("hfu_share", [](const Report& r) { return r.hfu; });
  add("peak_memory_bytes", [](const Report& r) { return static_cast<double>(r.peak_bytes); });
  add("forward_s", [](const Report& r) { return r.time.forward_s; });
  add("backward_s", [](const Report& r) { return r.time.backward_s; });
  add("recompute_s", [](const Report& r) { return r.time.recompute_s; });
  add("tp_comm_s", [](const Report& r) { return r.time.tp_comm_s; });
  add("pp_comm_s", [](const Report& r) { return r.time.pp_comm_s; });
  add("dp_comm_s", [](const Report& r) { return r.time.dp_comm_s; });
  add("cp_comm_s", [](const Report& r) { return r.time.cp_comm_s; });
  add("ep_comm_s", [](const Report& r) { return r.time.ep_comm_s; });
  add("bubble_s", [](const Report& r) { return r.time.bubble_s; });
  add("optimizer_s", [](const Report& r) { return r.time.optimizer_s; });
  add("other_s", [](const Report& r) { return r.time.other_s; });
  add("straggler_s", [](const Report& r) { return r.time.straggler_s; });
}

void AddLayout(std::vector<Column>& columns) {
  const auto add = [&](const char* name, std::string (*value)(const spec::ParallelSpec&)) {
    columns.push_back({name, [value](const WhatIfPoint& point) {
                         return point.found.best ? value(point.found.best->parallel)
                                                 : std::string();
                       }});
  };
  using Layout = spec::ParallelSpec;
  add("tensor_parallel_size",
      [](const Layout& l) { return std::to_string(l.tensor_parallel_size); });
  add("pipeline_parallel_size",
      [](const Layout& l) { return std::to_string(l.pipeline_parallel_size); });
  add("virtual_pipeline_size",
      [](const Layout& l) { return std::to_string(l.virtual_pipeline_size); });
  add("data_parallel_size", [](const Layout& l) { return std::to_string(l.data_parallel_size); });
  add("context_parallel_size",
      [](const Layout& l) { return std::to_string(l.context_parallel_size); });
  add("expert_parallel_size",
      [](const Layout& l) { return std::to_string(l.expert_parallel_size); });
  add("micro_batch_size", [](const Layout& l) { return std::to_string(l.micro_batch_size); });
  add("layout", [](const Layout& l) { return Quoted(LayoutText(l)); });
}

void AddRun(std::vector<Column>& columns) {
  const auto add = [&](const char* name, std::optional<double> (*value)(const RunFigures&)) {
    columns.push_back({name, [value](const WhatIfPoint& point) {
                         const std::optional<double> number =
                             point.run ? value(*point.run) : std::nullopt;
                         return number ? Number(*number) : std::string();
                       }});
  };
  using Run = RunFigures;
  using Cell = std::optional<double>;
  add("goodput_share", [](const Run& r) { return Cell(r.goodput.useful_share); });
  add("mtbf_s", [](const Run& r) { return Cell(r.mtbf_s); });
  add("checkpoint_s", [](const Run& r) { return Cell(r.checkpoint_s); });
  add("checkpoint_interval_s", [](const Run& r) { return Cell(r.goodput.interval_s); });
  add("expected_failures", [](const Run& r) { return Cell(r.expected_failures); });
  add("effective_tokens_per_s", [](const Run& r) { return Cell(r.effective_tokens_per_s); });
  add("days", [](const Run& r) { return Cell(r.Days()); });
  add("device_hours", [](const Run& r) { return Cell(r.device_hours); });
  add("cost_usd", [](const Run& r) { return r.cost_usd; });
  add("energy_kwh", [](const Run& r) { return r.energy_kwh; });
}

}  // namespace

std::string WhatIfCsv(const WhatIfResult& result) {
  std::vector<Column> columns;
  AddJob(columns);
  AddReport(columns);
  AddLayout(columns);
  AddRun(columns);
  const std::vector<int>& frontier = result.frontier;
  columns.push_back({"on_frontier", [&](const WhatIfPoint& point) {
                       const bool is_on = std::find(frontier.begin(), frontier.end(),
                                                    point.found.id) != frontier.end();
                       return std::string(is_on ? "true" : "false");
                     }});
  std::string text;
  const auto add_row = [&](const std::function<std::string(const Column&)>& cell) {
    for (const Column& column : columns) {
      text += cell(column);
      text += &column == &columns.back() ? "\r\n" : ",";
    }
  };
  add_row([](const Column& column) { return column.name; });
  for (const WhatIfPoint& point : result.points) {
    if (point.found.is_done) add_row([&](const Column& column) { return column.cell(point); });
  }
  return text;
}

}  // namespace tessera::planner
