// The data of a run: what it trains on, and what its loss is evaluated on.
#pragma once

#include <memory>

#include "engine/train/train_job.h"

namespace tessera::engine {

struct RunData {
  std::unique_ptr<SampleSource> training;
  std::unique_ptr<SampleSource> validation;  // null: none
};

// Throws base::ConfigError for data that do not fit the plan.
RunData OpenRunData(const TrainOptions& options);
// Of one evaluation.
int64_t NumValidationSamples(const TrainOptions& options);

}  // namespace tessera::engine
