#include "planner/cli/what_if_options.h"

#include "planner/cli/output_options.h"

namespace tessera::planner {
namespace {

template <typename T>
CLI::Option* AddList(CLI::App& command, const std::string& names, std::vector<T>& values,
                     const std::string& description) {
  return command.add_option(names, values, description)->delimiter(',');
}

void AddAxesOfSweep(CLI::App& command, WhatIfOptions& options) {
  AddList(command, "--model,--models", options.models,
          "Models: presets or files as plan takes them, comma-separated");
  AddList(command, "--clusters,--cluster", options.clusters,
          "Clusters: presets or files, comma-separated");
  AddList(command, "--devices,--gpus", options.device_counts,
          "Numbers of devices, comma-separated (default: one node of each cluster; with --within "
          "the fewest that suffice, with --budget nodes doubled up to 16,384 devices)")
      ->check(AtLeastOne());
  AddList(command, "--global-batch-sizes,--global-batch-size", options.global_batch_sizes,
          "Samples of one optimizer step, comma-separated")
      ->check(AtLeastOne());
  AddList(command, "--seq-lengths,--seq-length", options.sequence_lengths,
          "Tokens of one sample, comma-separated (default: the model's)")
      ->check(AtLeastOne());
}

void AddClusterChanges(CLI::App& command, WhatIfOptions& options) {
  const char* group = "Changes of the clusters (all combinations, beside the cluster as it is)";
  AddList(command, "--inter-node-bandwidths", options.inter_node_bandwidths,
          "Of one NIC, one direction: 50GB/s, 400Gb/s or 2x")
      ->group(group);
  AddList(command, "--intra-node-bandwidths", options.intra_node_bandwidths,
          "Of a device's links inside a node, one direction: 450GB/s or 2x")
      ->group(group);
  AddList(command, "--nics-per-node", options.nics_per_node, "NICs of a node: 4 or 2x")
      ->group(group);
  AddList(command, "--memory-gib", options.memories, "Memory of a device in GiB: 141 or 2x")
      ->group(group);
  AddList(command, "--device-speeds", options.device_speeds,
          "FLOP/s and memory bandwidth of a device: 2x")
      ->group(group);
}

void AddRun(CLI::App& command, WhatIfOptions& options) {
  const auto add = [&](const char* name, std::string& value, const char* description) {
    command.add_option(name, value, description)->group("Run");
  };
  add("--tokens", options.tokens,
      "Tokens to train on, such as 15T or 15e12: gives days, device-hours, cost, energy");
  add("--within", options.within,
      "Answer which devices train --tokens in that time, such as 60d, 36h or 2w");
  add("--budget", options.budget,
      "Answer which devices train --tokens for at most so many US dollars, such as 5M");
  AddList(command, "--price", options.prices,
          "US dollars for an hour of a device: 2.5 for all clusters, or dgx-h100=2.5,... "
          "(default: what the cluster's file says)")
      ->group("Run");
  add("--mtbf", options.mtbf,
      "Mean time between failures of one device, such as 50000h; \"none\": they never fail");
  add("--checkpoint-time", options.checkpoint_time,
      "How long a checkpoint stops the training (default: its bytes over the storage's bandwidth)");
  add("--storage-bandwidth", options.storage_bandwidth,
      "Of the job to its storage, such as 100GB/s (default: by the number of devices)");
  add("--restart-time", options.restart_time, "From a failure to the next step, such as 15min");
  command
      .add_option("--node-power-factor", options.node_power_factor,
                  "Power of a node over the rated power of its devices")
      ->group("Run");
  command
      .add_option("--pue", options.power_usage_effectiveness,
                  "Power usage effectiveness of the site")
      ->group("Run");
}

void AddComparison(CLI::App& command, WhatIfOptions& options) {
  AddList(command, "--compare", options.compared,
          "Hold two steps against each other, term by term: plan files, clusters (with --model), "
          "or what estimate --format json, train --format json or train --metrics wrote")
      ->type_name("A,B");
}

void AddOutput(CLI::App& command, WhatIfOptions& options) {
  command.add_option("--json", options.json_path, "Write the whole result to this file");
  command.add_option("--csv", options.csv_path, "Write a row for each point to this file");
  command.add_option(
      "--html", options.html_path,
      "Write a report with charts to this file, for a browser: one file, no network");
  command.add_flag_callback(
      "--no-margins", [&options] { options.finds_margins = false; },
      "Do not ask what changes of the clusters would bring");
  command.add_option("--jobs", options.num_workers, "Searches at a time (default: all cores)")
      ->check(AtLeastOne());
  AddFormatOption(command, options.format);
  AddQuietFlag(command, options.quiet);
}

}  // namespace

void AddWhatIfOptions(CLI::App& command, WhatIfOptions& options) {
  AddAxesOfSweep(command, options);
  AddClusterChanges(command, options);
  AddRun(command, options);
  AddComparison(command, options);
  AddLayoutAndTrainingOptions(command, options.job);
  AddOutput(command, options);
}

}  // namespace tessera::planner
