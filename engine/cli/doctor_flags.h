#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/train_job.h"

namespace tessera::engine {

// Flags of tessera train that look at the run itself.
struct DoctorFlags {
  std::vector<std::string> compared_plans;  // none, or two
  std::optional<double> tolerance;          // none: by the precision
};

// To be called after the flags of --save, --resume, --export-hf, --trace and --metrics are there: a
// comparison has none of these. `options` and `flags` must outlive the command.
void AddDoctorFlags(CLI::App& command, DoctorFlags& flags, TrainOptions& options);

}  // namespace tessera::engine
