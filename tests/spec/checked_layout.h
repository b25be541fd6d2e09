// A small model and a batch under a layout whose rules a test breaks.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

struct CheckedLayout {
  ModelSpec model = {.name = "toy",
                     .num_layers = 8,
                     .hidden_size = 96,
                     .num_attention_heads = 12,
                     .num_key_value_heads = 12,
                     .head_dim = 8,
                     .ffn_hidden_size = 384,
                     .vocab_size = 100,
                     .max_sequence_length = 64};
  TrainingSpec training = {.global_batch_size = 16, .sequence_length = 64};
  ParallelSpec parallel;
  int num_devices = 0;

  std::vector<Violation> Find() const {
    return FindViolations(model, training, parallel, num_devices);
  }
};

// Matches violations one of which is of `constraint`.
inline auto Breaks(const std::string& constraint) {
  return ::testing::Contains(::testing::Field(&Violation::constraint, constraint));
}

}  // namespace tessera::spec
