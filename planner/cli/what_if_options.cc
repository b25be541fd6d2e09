#include "planner/cli/what_if_options.h"

#include "planner/cli/output_options.h"

namespace tessera::planner {
namespace {

void AddAxesOfSweep(CLI::App& command, WhatIfOptions& options) {
  command
      .add_option("--model,--models", options.models,
                  "Models: presets or files as plan takes them, comma-separated")
      ->delimiter(',');
  command
      .add_option("--clusters,--cluster", options.clusters,
                  "Clusters: presets or files, comma-separated")
      ->delimiter(',');
  command
      .add_option("--devices,--gpus", options.device_counts,
                  "Numbers of devices, comma-separated (default: one node of each cluster)")
      ->delimiter(',')
      ->check(AtLeastOne());
  command
      .add_option("--global-batch-sizes,--global-batch-size", options.global_batch_sizes,
                  "Samples of one optimizer step, comma-separated")
      ->delimiter(',')
      ->check(AtLeastOne());
  command
      .add_option("--seq-lengths,--seq-length", options.sequence_lengths,
                  "Tokens of one sample, comma-separated (default: the model's)")
      ->delimiter(',')
      ->check(AtLeastOne());
}

void AddRun(CLI::App& command, WhatIfOptions& options) {
  command
      .add_option("--tokens", options.tokens,
                  "Tokens to train on, such as 15T or 15e12: gives days, device-hours and cost")
      ->group("Run");
}

}  // namespace

void AddWhatIfOptions(CLI::App& command, WhatIfOptions& options) {
  AddAxesOfSweep(command, options);
  AddRun(command, options);
  AddLayoutAndTrainingOptions(command, options.job);
  command.add_option("--json", options.json_path, "Write the whole result to this file");
  command.add_option("--jobs", options.num_workers, "Searches at a time (default: all cores)")
      ->check(AtLeastOne());
  AddFormatOption(command, options.format);
  AddQuietFlag(command, options.quiet);
}

}  // namespace tessera::planner
