// Jobs with round numbers, for prices worked out by hand.
#pragma once

#include "cost_model/job_costs.h"
#include "cost_model/network.h"

namespace tessera::cost_model {

// 100 TFLOP/s, 1 TB/s; eight devices a node, 100 GB/s links inside, four NICs of 10 GB/s; no
// latencies, everything at full efficiency.
inline spec::ClusterSpec RoundCluster() {
  spec::ClusterSpec cluster;
  cluster.name = "round";
  cluster.device.memory_bytes = 80'000'000'000;
  cluster.device.memory_bandwidth_bytes_per_s = 1e12;
  cluster.device.peak_flops_per_s = {{base::DType::kBFloat16, 100e12},
                                     {base::DType::kFloat16, 100e12},
                                     {base::DType::kFloat32, 50e12}};
  cluster.devices_per_node = 8;
  cluster.nics_per_node = 4;
  cluster.intra_node.bandwidth_bytes_per_s = 100e9;
  cluster.inter_node.bandwidth_bytes_per_s = 10e9;
  return cluster;
}

inline spec::ModelSpec SmallGpt() {
  spec::ModelSpec model;
  model.name = "small-gpt";
  model.num_layers = 8;
  model.hidden_size = 1024;
  model.num_attention_heads = model.num_key_value_heads = 16;
  model.head_dim = 64;
  model.ffn_hidden_size = 4096;
  model.vocab_size = 32768;
  model.max_sequence_length = 1024;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  model.tied_embeddings = true;
  return model;
}

inline Job RoundJob(int num_devices) {
  Job job{.model = SmallGpt(), .cluster = RoundCluster(), .num_devices = num_devices};
  job.training.global_batch_size = 64;
  job.training.sequence_length = 1024;
  job.training.precision = spec::Precision::kBf16;
  return job;
}

// Where a group of ranks lies in a job on round nodes.
inline GroupPlacement Place(int size, int64_t stride, int world_size) {
  return PlaceGroup({.size = size, .stride = stride}, world_size, RoundCluster());
}

}  // namespace tessera::cost_model
