// Points of a what-if made by hand, without a search.
#pragma once

#include <string>
#include <vector>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

struct HandPoint {
  const char* cluster = "a";
  int num_devices = 8;
  int64_t global_batch_size = 64;
  double step_time_s = 1;
  double price_per_hour = 0;  // 0: unknown
  int tensor_parallel_size = 1;
};

// A point whose step takes that long; ids count up. Without failures.
inline WhatIfPoint MakeHandPoint(int id, const HandPoint& hand, const RunTerms& terms) {
  constexpr int64_t kSequenceLength = 1000;
  WhatIfPoint point;
  cost_model::Job& job = point.asked.request.job;
  job.model.name = "m";
  job.model.num_layers = 1;
  job.model.num_attention_heads = job.model.num_key_value_heads = 1;
  job.model.hidden_size = job.model.head_dim = job.model.ffn_hidden_size = 8;
  job.model.vocab_size = 8;
  job.cluster.name = hand.cluster;
  job.cluster.device.price_per_hour = hand.price_per_hour;
  job.num_devices = hand.num_devices;
  job.training.global_batch_size = hand.global_batch_size;
  job.training.sequence_length = kSequenceLength;
  point.found.id = id;
  point.found.is_done = true;
  RankedLayout best;
  best.parallel.tensor_parallel_size = hand.tensor_parallel_size;
  best.report.step_time_s = hand.step_time_s;
  best.report.tokens_per_s =
      static_cast<double>(hand.global_batch_size * kSequenceLength) / hand.step_time_s;
  best.report.tokens_per_s_per_device = best.report.tokens_per_s / hand.num_devices;
  point.found.best = best;
  if (terms.tokens) point.run = EstimateRun(job, best.report, terms);
  return point;
}

inline std::vector<WhatIfPoint> MakeHandPoints(const std::vector<HandPoint>& hands,
                                               const RunTerms& terms) {
  std::vector<WhatIfPoint> points;
  for (const HandPoint& hand : hands) {
    points.push_back(MakeHandPoint(static_cast<int>(points.size()), hand, terms));
  }
  return points;
}

// So many tokens that never fail to be trained on.
inline RunTerms TermsWithoutFailures(double tokens) {
  RunTerms terms;
  terms.tokens = tokens;
  terms.storage_bandwidth_bytes_per_s_per_device.value = 1e9;
  return terms;
}

}  // namespace tessera::planner
