// What is assumed of a whole run beside its step: tokens, failures, storage, prices, power. Each
// number comes from a flag or from configs/what_if/defaults.json, with its source.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/spec/cluster_spec.h"

namespace tessera::planner {

struct SourcedNumber {
  double value = 0;
  spec::NumberSource source;
};

struct RunTerms {
  std::optional<double> tokens;  // to train on; without them a run has no length and no cost
  std::optional<double> within_s;
  std::optional<double> budget_usd;
  // Mean time between failures of one device, from hardware or software, that stop the job;
  // infinite: none.
  SourcedNumber mtbf_device_s{std::numeric_limits<double>::infinity(), {}};
  // Seconds that a checkpoint stops the training; absent: its bytes over the storage's bandwidth.
  std::optional<SourcedNumber> checkpoint_s;
  std::optional<SourcedNumber> storage_bandwidth_bytes_per_s;  // of the job; absent: by devices
  SourcedNumber storage_bandwidth_bytes_per_s_per_device;
  SourcedNumber restart_s;
  // Watts of a node for each watt of its devices: hosts, network cards, fans.
  SourcedNumber node_power_factor{1, {}};
  SourcedNumber power_usage_effectiveness{1, {}};  // of the site for each watt of its computers
  // US dollars for an hour of a device, by cluster, before those of the clusters' own files.
  std::map<std::string, double> price_per_device_hour;
};

// The defaults of the data file. Throws base::ConfigError where there is none or it is wrong.
RunTerms LoadRunTerms();

}  // namespace tessera::planner
