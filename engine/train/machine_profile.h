// This machine as a cluster file describes it, from measurements of its kernels and links.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/cluster_spec.h"
#include "engine/comm/link_probe.h"
#include "kernels/machine_probe.h"

namespace tessera::engine {

// What the system tells of itself.
struct HostInfo {
  std::string processor;  // "AMD EPYC", "CPU" when unknown
  int num_cores = 1;      // that this process may use
  int64_t memory_bytes = 0;
};
HostInfo ReadHostInfo();

// The best of the rates, 0 of none.
double BestRate(const std::vector<kernels::RatePoint>& points);
// Rates as shares of `peak`.
spec::EfficiencyTable TableOf(const std::vector<kernels::RatePoint>& points, double peak);

// A pool of cores that any number of ranks share. Rates of one core are those measured while all
// cores were busy; efficiencies are relative to the best of them.
spec::ClusterSpec DescribeMachine(const std::string& name, const HostInfo& host,
                                  const kernels::MachineProbe& probe, const LinkProbe& link);

}  // namespace tessera::engine
