// The flags of what-if and the request they make.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/cli/job_options.h"
#include "planner/what_if/what_if.h"

namespace tessera::planner {

// As typed.
struct WhatIfOptions {
  JobOptions job;  // layout and training; what is swept over stands below
  std::vector<std::string> models, clusters;
  std::vector<int> device_counts;
  std::vector<int64_t> global_batch_sizes, sequence_lengths;
  // Changes of the clusters: numbers with units, or factors ("2x").
  std::vector<std::string> inter_node_bandwidths, intra_node_bandwidths, nics_per_node, memories;
  std::vector<std::string> device_speeds;
  // The run.
  std::string tokens, within, budget, mtbf, checkpoint_time, storage_bandwidth, restart_time;
  std::vector<std::string> prices;
  std::optional<double> node_power_factor, power_usage_effectiveness;
  bool finds_margins = true;
  std::vector<std::string> compared;  // plans, clusters or step reports: two, or none
  // Output.
  std::string format = "table";
  std::string json_path, csv_path, html_path;
  int num_workers = 0;  // 0: as many as the machine has cores
  bool quiet = false;
  bool is_json() const { return format == "json"; }
};

void AddWhatIfOptions(CLI::App& command, WhatIfOptions& options);

// Every combination of what is swept over, in the order of the flags; models vary slowest, batches
// fastest, and of the changed clusters the cluster as described comes first. Appends to `notes` one
// sentence for each default worth knowing of.
// Throws base::ConfigError for names, files and values that are wrong.
WhatIfRequest MakeWhatIfRequest(const WhatIfOptions& options, std::vector<std::string>& notes);

// The run's numbers: flags before the defaults of the data file. `clusters`: names that prices may
// be given for. Throws base::ConfigError.
RunTerms MakeRunTerms(const WhatIfOptions& options, const std::vector<std::string>& clusters);

}  // namespace tessera::planner
