#include "engine/train/machine_profile.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

// Ranks that are threads of one process: no limit of the machine's.
constexpr int kMaxRanks = 1024;

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  const std::string key = "model name";
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.compare(0, key.size(), key) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "CPU";
}

int NumUsableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? std::max(1, CPU_COUNT(&cores)) : 1;
}

}  // namespace

double BestRate(const std::vector<kernels::RatePoint>& points) {
  double best = 0;
  for (const kernels::RatePoint& point : points) best = std::max(best, point.rate);
  return best;
}

spec::EfficiencyTable TableOf(const std::vector<kernels::RatePoint>& points, double peak) {
  spec::EfficiencyTable table;
  for (const kernels::RatePoint& point : points) {
    table.push_back({.size = point.size, .efficiency = std::min(1.0, point.rate / peak)});
  }
  return table;
}

HostInfo ReadHostInfo() {
  return {.processor = ProcessorName(),
          .num_cores = NumUsableCores(),
          .memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)};
}

spec::ClusterSpec DescribeMachine(const std::string& name, const HostInfo& host,
                                  const kernels::MachineProbe& probe, const LinkProbe& link) {
  const double core_flops_per_s =
      std::max(BestRate(probe.matmul_flops_per_s), BestRate(probe.attention_flops_per_s));
  // The best of all passes, caches included: the table says what larger ones reach of it.
  const double bandwidth_bytes_per_s = std::max(
      BestRate(probe.pass_bytes_per_s) * probe.num_threads, probe.update_bandwidth_bytes_per_s);
  const int num_steps = 2 * (link.num_ranks - 1);  // of a ring's all-reduce

  spec::ClusterSpec cluster{.name = name};
  cluster.device = {.name = host.processor + " core",
                    .memory_bytes = host.memory_bytes,
                    .memory_bandwidth_bytes_per_s = bandwidth_bytes_per_s,
                    .peak_flops_per_s = {{base::DType::kFloat32, core_flops_per_s}},
                    .launch_overhead_s = probe.op_overhead_s,
                    .matmul_efficiency = TableOf(probe.matmul_flops_per_s, core_flops_per_s),
                    .attention_efficiency = TableOf(probe.attention_flops_per_s, core_flops_per_s),
                    .memory_efficiency =
                        TableOf(probe.pass_bytes_per_s, bandwidth_bytes_per_s / probe.num_threads)};
  cluster.devices_per_node = kMaxRanks;
  cluster.max_devices = kMaxRanks;
  cluster.intra_node = {.bandwidth_bytes_per_s = link.bandwidth_bytes_per_s,
                        .latency_s = link.all_reduce_latency_s / num_steps};
  cluster.inter_node = cluster.intra_node;
  cluster.shared_compute_units = host.num_cores;

  const std::string threads = base::Concat(probe.num_threads, " threads at once");
  const auto measured = [&](const std::string& key, const std::string& how) {
    cluster.sources[key] = {.tag = "measured", .text = how};
  };
  measured("/device/memory_bytes", "physical memory of the machine; shared by all ranks");
  measured("/device/memory_bandwidth_bytes_per_s",
           "best pass over memory or caches, " + threads + "; shared by all ranks");
  measured("/device/peak_flops_per_s/fp32", "best matrix product of one core, " + threads);
  measured("/device/launch_overhead_s", "smallest operation");
  measured("/device/matmul_efficiency_by_flops", "square products, " + threads);
  measured("/device/attention_efficiency_by_flops", "forward and backward, " + threads);
  measured("/device/memory_efficiency_by_bytes", "residual additions, " + threads);
  measured("/intra_node/bandwidth_bytes_per_s",
           base::Concat("large all-reduce between ", link.num_ranks, " ranks"));
  measured("/intra_node/latency_s",
           base::Concat("small all-reduce between ", link.num_ranks, " ranks, a step of it"));
  measured("/shared_compute_units", "cores that the process may use");
  return cluster;
}

}  // namespace tessera::engine
