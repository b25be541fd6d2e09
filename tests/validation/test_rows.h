// Rows made by hand.
#pragma once

#include <string>

#include "planner/validation/row_result.h"

namespace tessera::planner {

// A GPT of 24 layers of width 2048 on two nodes of A100s, tp 2, pp 2, dp 4.
inline Measurement SmallRow() {
  Measurement row;
  row.id = "small";
  row.source = "a paper";
  row.framework = "Megatron-LM";
  row.model = {.name = "GPT",
               .num_layers = 24,
               .hidden_size = 2048,
               .num_attention_heads = 16,
               .ffn_hidden_size = 8192,
               .vocab_size = 51200,
               .sequence_length = 2048,
               .position = "learned"};
  row.hardware = {.gpu = "A100-80GB-SXM",
                  .num_devices = 16,
                  .devices_per_node = 8,
                  .intra_node = "NVLink3 600GB/s",
                  .inter_node = "8x200Gb HDR IB per node"};
  row.layout = {.tensor_parallel_size = 2,
                .pipeline_parallel_size = 2,
                .data_parallel_size = 4,
                .micro_batch_size = 2,
                .global_batch_size = 64,
                .recompute = "full",
                .zero_stage = 0,
                .precision = "fp16",
                .flash_attention = false};
  row.step_time_s = 1.0;
  row.is_for_time = true;
  return row;
}

// An answer to a row that took one second.
inline RowResult Answer(const std::string& id, double predicted_s, double measured_s = 1) {
  RowResult result;
  result.measurement = SmallRow();
  result.measurement.id = id;
  result.measurement.step_time_s = measured_s;
  result.predicted_step_time_s = predicted_s;
  result.fits = true;
  return result;
}

}  // namespace tessera::planner
