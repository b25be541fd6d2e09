#include "planner/what_if/what_if_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "cost_model/base/check.h"
#include "planner/text_format.h"
#include "planner/what_if/run_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr int kBarWidth = 12;

// "tp 8 pp 4 dp 16 mbs 1", the axes of size 1 left out.
std::string MeshText(const spec::ParallelSpec& parallel) {
  std::string text;
  const auto add = [&](const char* name, int64_t size, bool is_always_told) {
    if (size == 1 && !is_always_told) return;
    text += Concat(text.empty() ? "" : " ", name, size);
  };
  add("tp", parallel.tensor_parallel_size, true);
  add("pp", parallel.pipeline_parallel_size, true);
  add("vpp", parallel.virtual_pipeline_size, false);
  add("dp", parallel.data_parallel_size, true);
  add("cp", parallel.context_parallel_size, false);
  add("ep", parallel.expert_parallel_size, false);
  add("mbs", parallel.micro_batch_size, true);
  return text;
}

std::vector<std::string> Header(bool has_run, bool has_costs) {
  std::vector<std::string> header = {"devices", "batch", "step", "tokens/s", "MFU"};
  if (has_run) {
    header.insert(header.end(), {"days", "useful", has_costs ? "cost" : "device-hours"});
  }
  header.insert(header.end(), {"layout", "throughput"});
  return header;
}

std::vector<std::string> Row(const WhatIfPoint& point, bool has_run, bool has_costs,
                             double most_tokens_per_s, const std::string& mark) {
  const cost_model::Job& job = point.job();
  std::vector<std::string> row = {FormatCount(job.num_devices),
                                  FormatCount(job.training.global_batch_size)};
  if (!point.found.best) {
    row.insert(row.end(), {"-", "-", "-"});
    if (has_run) row.insert(row.end(), {"-", "-", "-"});
    row.insert(row.end(), {point.found.is_done ? "nothing fits" : "not searched", mark});
    return row;
  }
  const spec::StepReport& report = point.found.best->report;
  row.insert(row.end(), {FormatSeconds(report.step_time_s), LargeCountText(report.tokens_per_s),
                         FormatPercent(report.mfu)});
  if (has_run) {
    const RunFigures& run = *point.run;
    const bool is_known = has_costs && run.cost_usd;
    row.insert(row.end(), {DaysText(run.Days()), FormatPercent(run.goodput.useful_share),
                           is_known    ? DollarsText(*run.cost_usd)
                           : has_costs ? "-"
                                       : LargeCountText(run.device_hours)});
  }
  row.push_back(MeshText(point.found.best->parallel));
  row.push_back(BarText(report.tokens_per_s / most_tokens_per_s, kBarWidth) + mark);
  return row;
}

// What tells the groups apart, and the points of each in their order.
using GroupKey = std::tuple<std::string, int64_t, std::string, std::string>;
struct Group {
  GroupKey key;
  std::vector<const WhatIfPoint*> points;
};

std::vector<Group> GroupsOf(const WhatIfResult& result) {
  std::vector<Group> groups;
  for (const WhatIfPoint& point : result.points) {
    const cost_model::Job& job = point.job();
    const GroupKey key{job.model.name, job.training.sequence_length, job.cluster.name,
                       point.asked.variant};
    const auto at = std::find_if(groups.begin(), groups.end(),
                                 [&](const Group& group) { return group.key == key; });
    Group& group = at == groups.end() ? groups.emplace_back(Group{key, {}}) : *at;
    group.points.push_back(&point);
  }
  for (Group& group : groups) {
    std::stable_sort(group.points.begin(), group.points.end(),
                     [](const WhatIfPoint* a, const WhatIfPoint* b) {
                       return a->job().num_devices < b->job().num_devices;
                     });
  }
  return groups;
}

std::string GroupTitle(const Group& group) {
  const auto& [model, sequence_length, cluster, variant] = group.key;
  return Concat(model, " on ", cluster, variant.empty() ? "" : ", " + variant, ", ",
                FormatCount(sequence_length), " tokens a sample\n");
}

std::string MarkOf(const WhatIfResult& result, int id) {
  std::string mark;
  const auto& frontier = result.frontier;
  if (std::find(frontier.begin(), frontier.end(), id) != frontier.end()) mark += " *";
  for (const Answer& answer : result.answers) {
    if (answer.is_feasible && answer.point == id) mark += " <= answer";
  }
  return mark;
}

}  // namespace

std::string BarText(double share, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(share > 0)) return "";
  const int eighths = std::max(1, static_cast<int>(std::lround(std::min(share, 1.0) * width * 8)));
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + kEighths[eighths % 8];
}

std::string WhatIfText(const WhatIfRequest& request, const WhatIfResult& result) {
  const bool has_run = request.terms.tokens.has_value();
  std::string text;
  for (const Group& group : GroupsOf(result)) {
    double most_tokens_per_s = 0;
    bool has_costs = false;
    for (const WhatIfPoint* point : group.points) {
      if (!point->found.best) continue;
      most_tokens_per_s = std::max(most_tokens_per_s, point->found.best->report.tokens_per_s);
      if (point->run && point->run->cost_usd) has_costs = true;
    }
    TextTable table(Header(has_run, has_costs));
    for (const WhatIfPoint* point : group.points) {
      table.AddRow(
          Row(*point, has_run, has_costs, most_tokens_per_s, MarkOf(result, point->found.id)));
    }
    text += GroupTitle(group) + table.ToString(2) + "\n";
  }
  if (!result.frontier.empty()) {
    text += "*: no other point takes both no longer and no more money\n\n";
  }
  if (result.comparison) text += ComparisonText(*result.comparison);
  for (const std::string& sentence : result.summary) text += WrapText(sentence, "  - ");
  return text;
}

}  // namespace tessera::planner
