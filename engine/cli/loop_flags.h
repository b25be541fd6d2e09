// Flags of `tessera train` for the loop around its steps: evaluation, steps that go wrong, logs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "engine/train/train_job.h"

namespace tessera::engine {

struct LoopFlags {
  std::string on_nan = "stop";
  std::string on_spike = "ignore";
  std::string tensorboard;  // a folder; "": none
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  int64_t eod_token = -1;     // -1: the plan's
  std::vector<int64_t> ramp;  // start, increment, samples; empty: the plan's
};

void AddLoopFlags(CLI::App& command, LoopFlags& flags, TrainOptions& options);
// Once the command line and the plan are read.
void ApplyLoopFlags(const LoopFlags& flags, TrainOptions& options);

}  // namespace tessera::engine
