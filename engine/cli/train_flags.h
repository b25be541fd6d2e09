// Flags of `tessera train`, and what they say together.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/cli/doctor_flags.h"
#include "engine/cli/loop_flags.h"
#include "engine/train/train_job.h"

namespace tessera::engine {

struct TrainFlags {
  std::string plan;
  std::string hyperparameters;
  std::string init = "random";
  std::string metrics;
  std::string comm;
  std::string host_link = "shm";
  int num_ranks = 0;
  int num_restarts = 0;
  std::string device = "cpu";
  std::string format = "table";
  int64_t steps = 0;
  int threads_per_rank = 0;
  bool quiet = false;
  std::vector<std::string> data;
  std::string split;
  std::string data_format = "auto";
  std::string data_order = "shuffled";
  std::string on_save_error = "stop";
  LoopFlags loop;
  TrainOptions options;
  DoctorFlags doctor;
};

// `flags` must outlive the command.
void AddTrainFlags(CLI::App& command, TrainFlags& flags);

// A plan's file with what the flags put over it.
spec::Plan LoadPlan(const std::string& path, const TrainFlags& flags);

// Fills the options once the command line is read; whatever is wrong with it comes out here.
// Compared plans are left to be read where they are compared. Throws base::ConfigError.
void Prepare(TrainFlags& flags);

}  // namespace tessera::engine
