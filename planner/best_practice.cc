#include "planner/best_practice.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/memory.h"
#include "planner/search_space.h"

namespace tessera::planner {
namespace {

constexpr int kNodeSize = 8;

// A row holds from its number of devices on.
struct TableRow {
  int num_devices;
  int pipeline_parallel_size;
};
constexpr TableRow kTable[] = {{8, 1}, {16, 2}, {32, 4}};

int PipelineSizeOf(int num_devices) {
  int pipeline_parallel_size = 1;
  for (const TableRow& row : kTable) {
    if (num_devices >= row.num_devices) pipeline_parallel_size = row.pipeline_parallel_size;
  }
  return pipeline_parallel_size;
}

}  // namespace

std::optional<BestPractice> PriceBestPractice(const Request& request, cost_model::JobCosts& costs) {
  const spec::ClusterSpec& cluster = request.job.cluster;
  if (cluster.shared_compute_units > 0 || spec::DevicesPerDomain(cluster) < kNodeSize)
    return std::nullopt;
  BestPractice practice;
  practice.tensor_parallel_size = std::min(kNodeSize, request.job.num_devices);
  practice.pipeline_parallel_size = PipelineSizeOf(request.job.num_devices);
  practice.rule =
      base::Concat("TP ", practice.tensor_parallel_size, ", PP ", practice.pipeline_parallel_size,
                   request.job.num_devices > 32 ? ", the rest data-parallel" : "");
  Request by_table = request;
  by_table.pins.tensor_parallel_size = practice.tensor_parallel_size;
  by_table.pins.pipeline_parallel_size = practice.pipeline_parallel_size;
  by_table.pins.data_parallel_size.reset();
  by_table.pins.context_parallel_size = by_table.pins.context_parallel_size.value_or(1);
  by_table.fixed.layers_per_virtual_stage.clear();
  if (practice.pipeline_parallel_size == 1) {
    by_table.pins.virtual_pipeline_size.reset();
    by_table.pins.schedule.reset();
  }
  SearchResult found = SearchBest(by_table, costs);
  if (!found.rows.empty()) {
    practice.layout = std::move(found.rows.front());
    return practice;
  }
  // Of the axes that the table leaves alone.
  for (const Rejection& rejection : found.rejections) {
    // A layout that only lacks memory came furthest: its reason counts first.
    const bool is_memory = rejection.constraint == cost_model::kDeviceMemory;
    practice.violations.insert(is_memory ? practice.violations.begin() : practice.violations.end(),
                               rejection.example);
  }
  return practice;
}

}  // namespace tessera::planner
