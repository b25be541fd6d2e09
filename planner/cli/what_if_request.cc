// From flags to the points of a sweep: declared in what_if_options.h.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "cost_model/base/error.h"
#include "planner/cli/what_if_options.h"
#include "planner/what_if/quantity_text.h"

namespace tessera::planner {
namespace {

// The values in their order, each once.
template <typename T>
std::vector<T> Distinct(const std::vector<T>& values) {
  std::vector<T> distinct;
  for (const T& value : values) {
    if (std::find(distinct.begin(), distinct.end(), value) == distinct.end()) {
      distinct.push_back(value);
    }
  }
  return distinct;
}

// The values, or one that stands for the default where none is given.
template <typename T>
std::vector<std::optional<T>> OrDefault(const std::vector<T>& values) {
  if (values.empty()) return {std::nullopt};
  const std::vector<T> distinct = Distinct(values);
  return {distinct.begin(), distinct.end()};
}

// The job of a model on a cluster, with the batch that the most devices would have by default: the
// points of a sweep differ in what was asked, not in what was not.
Request BaseRequest(const WhatIfOptions& options, const std::string& model,
                    const std::string& cluster, std::optional<int64_t> sequence_length,
                    std::vector<std::string>& notes) {
  JobOptions job = options.job;
  job.model = model;
  job.cluster = cluster;
  job.sequence_length = sequence_length;
  if (!options.global_batch_sizes.empty()) job.global_batch_size = options.global_batch_sizes[0];
  return MakeRequest(job, notes);
}

void AddPoints(const WhatIfOptions& options, const Request& base, WhatIfRequest& request) {
  for (const std::optional<int>& num_devices : OrDefault(options.device_counts)) {
    for (const std::optional<int64_t>& batch : OrDefault(options.global_batch_sizes)) {
      SweepPoint point{base, ""};
      if (num_devices) point.request.job.num_devices = *num_devices;
      if (batch) point.request.job.training.global_batch_size = *batch;
      request.points.push_back(std::move(point));
    }
  }
}

}  // namespace

WhatIfRequest MakeWhatIfRequest(const WhatIfOptions& options, std::vector<std::string>& notes) {
  if (options.models.empty()) throw base::ConfigError("--model is required");
  if (options.clusters.empty()) throw base::ConfigError("--clusters is required");
  WhatIfRequest request;
  request.terms = LoadRunTerms();
  if (!options.tokens.empty()) request.terms.tokens = ParseCount(options.tokens, "--tokens");
  for (const std::string& model : Distinct(options.models)) {
    for (const std::string& cluster : Distinct(options.clusters)) {
      for (const std::optional<int64_t>& sequence_length : OrDefault(options.sequence_lengths)) {
        AddPoints(options, BaseRequest(options, model, cluster, sequence_length, notes), request);
      }
    }
  }
  return request;
}

}  // namespace tessera::planner
