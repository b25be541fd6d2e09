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
  std::string tokens;
  std::string format = "table";
  std::string json_path, csv_path;
  int num_workers = 0;  // 0: as many as the machine has cores
  bool quiet = false;
  bool is_json() const { return format == "json"; }
};

void AddWhatIfOptions(CLI::App& command, WhatIfOptions& options);

// Every combination of what is swept over, in the order of the flags; models vary slowest, batches
// fastest. Appends to `notes` one sentence for each default worth knowing of.
// Throws base::ConfigError for names, files and values that are wrong.
WhatIfRequest MakeWhatIfRequest(const WhatIfOptions& options, std::vector<std::string>& notes);

}  // namespace tessera::planner
