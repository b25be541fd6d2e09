// The device as one rank sees it, and how the runtime drives it.
#pragma once

#include <optional>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/runtime_spec.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::cost_model {

// What prices the operations of one rank: peaks and bandwidth it has to itself, the cluster's
// efficiencies, and the kernels that the runtime makes of an operation.
struct RankDevice {
  double matmul_flops_per_s = 0;  // dense peak; sustained where the cluster describes kernels
  // As matmul_flops_per_s, for products that stay in the activations' type: attention, the head.
  double activation_flops_per_s = 0;
  double memory_bandwidth_bytes_per_s = 0;
  double launch_overhead_s = 0;
  double host_s_per_kernel = 0;
  double host_s_per_collective = 0;
  int64_t element_bytes = 4;         // of one activation
  int64_t matmul_element_bytes = 4;  // of an operand of a matrix product
  spec::EfficiencyTable matmul_efficiency;
  spec::EfficiencyTable attention_efficiency;
  spec::EfficiencyTable memory_efficiency;
  std::optional<spec::KernelSpec> kernels;
  spec::RuntimeSpec runtime;

  // The same device for operations that stay in the activations' type.
  RankDevice InActivationType() const;
};

// Cores of a shared pool that one of `ranks_on_node` ranks computes with; 1 where every device
// stands on its own.
int ThreadsPerRank(const spec::ClusterSpec& cluster, int ranks_on_node);

// Ranks of a job of `num_devices` that sit on one node.
int RanksOnNode(const spec::ClusterSpec& cluster, int num_devices);

// A rank of a job of `num_devices`. On a shared pool the rank has ThreadsPerRank cores and the same
// share of the node's memory bandwidth.
// Throws base::ConfigError when the cluster gives no peak for the precision's matrix products.
RankDevice MakeRankDevice(const spec::ClusterSpec& cluster, spec::Precision precision,
                          int num_devices, const spec::RuntimeSpec& runtime = {});

}  // namespace tessera::cost_model
