// The flags that plan, estimate and what-if have in common, and the request they make.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/request.h"

namespace tessera::planner {

// As typed: absent flags have no value.
struct JobOptions {
  std::string model;
  std::string cluster;
  std::string hyperparameters;
  std::optional<int> num_devices;
  std::optional<int> tensor_parallel_size, pipeline_parallel_size, data_parallel_size;
  std::optional<int> context_parallel_size, expert_parallel_size, expert_tensor_parallel_size;
  std::optional<int> virtual_pipeline_size, microbatch_group_size, num_recomputed_layers;
  std::optional<int64_t> micro_batch_size, global_batch_size, sequence_length, steps;
  std::optional<uint64_t> seed;
  std::optional<double> hidden_dropout, attention_dropout, embedding_dropout;
  std::optional<bool> sequence_parallel;
  std::optional<std::string> recompute, schedule, precision, attention, context_kind;
  std::optional<std::string> target;
  std::optional<int> zero_stage, zero_group_size;
  bool offload_optimizer = false;
  bool overlap_param_gather = false;
  bool overlap_tp_comm = false;
  bool overlap_pp_comm = false;
  std::vector<int> layers_per_virtual_stage;
  std::optional<std::string> rank_order;
  std::string flops_convention = "full";
};

void AddJobOptions(CLI::App& command, JobOptions& options);
// Those of them that a sweep over models, clusters, devices, batches and sequences leaves alone.
void AddLayoutAndTrainingOptions(CLI::App& command, JobOptions& options);

// Whole numbers from one on.
CLI::Validator AtLeastOne();

// What the flags, the model's file and the defaults make together. Appends to `notes` one sentence
// for each default that the user may want to know of.
// Throws base::ConfigError for names, files and values that are wrong.
Request MakeRequest(const JobOptions& options, std::vector<std::string>& notes);

}  // namespace tessera::planner
