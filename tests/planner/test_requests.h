// Requests on presets, as a user would make them.
#pragma once

#include <string>

#include "cost_model/spec/spec_json.h"
#include "planner/request.h"

namespace tessera::planner {

inline Request MakeTestRequest(const std::string& model, const std::string& cluster,
                               int num_devices, int64_t global_batch_size) {
  Request request;
  request.job.model = spec::LoadModel(model);
  request.job.cluster = spec::LoadCluster(cluster);
  request.job.num_devices = num_devices;
  request.job.training.global_batch_size = global_batch_size;
  request.job.training.sequence_length = request.job.model.max_sequence_length;
  request.job.training.precision =
      cluster == "local-cpu" ? spec::Precision::kFp32 : spec::Precision::kBf16;
  return request;
}

}  // namespace tessera::planner
