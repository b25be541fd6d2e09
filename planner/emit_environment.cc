#include "planner/emit_environment.h"

#include <algorithm>
#include <cstdint>

#include "cost_model/base/check.h"
#include "planner/emit_text.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;
using Hints = std::vector<EnvironmentHint>;

void AddConnections(const spec::ParallelSpec& parallel, bool is_deepspeed, Hints& hints) {
  if (parallel.zero_stage >= 2) {
    if (is_deepspeed) return;
    hints.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", "",
                     "Sharded parameters and gradients travel beside the products, which one "
                     "hardware queue would forbid: Megatron-FSDP refuses the value 1."});
    return;
  }
  const bool is_split = parallel.tensor_parallel_size > 1 || parallel.context_parallel_size > 1;
  if (!is_split) return;
  hints.push_back({"CUDA_DEVICE_MAX_CONNECTIONS", "1",
                   "One hardware queue starts kernels in the order of their launch, so that a "
                   "collective of tp or cp begins before the product that hides it. Megatron-LM "
                   "refuses to start without it on devices before Blackwell."});
}

// Between nodes.
void AddFabric(const spec::Plan& plan, Hints& hints) {
  const spec::ClusterSpec& cluster = plan.cluster;
  if (plan.num_devices <= cluster.devices_per_node) return;
  hints.push_back({"NCCL_IB_HCA", "mlx5_0,mlx5_1",
                   Concat("The plan counts on ", FormatPlural(cluster.nics_per_node, "NIC"),
                          " a node: name the adapters of the compute fabric, so that NCCL leaves "
                          "storage and management ports alone."),
                   false});
  hints.push_back({"NCCL_SOCKET_IFNAME", "eth0",
                   "The interface over which processes find each other, where the first one found "
                   "does not reach the other nodes.",
                   false});
  if (cluster.nics_per_node >= cluster.devices_per_node && cluster.nics_per_node > 1) {
    hints.push_back({"NCCL_CROSS_NIC", "0",
                     "A NIC for each device: rings and trees stay on the rail of their NIC."});
  }
  constexpr int kManyNodes = 64;
  if (plan.num_devices / cluster.devices_per_node >= kManyNodes) {
    hints.push_back({"NCCL_IB_TIMEOUT", "22",
                     "Over many nodes a congested or rerouted link needs longer than the default "
                     "before a transfer counts as lost."});
  }
}

void AddPipelineTransfers(const spec::Plan& plan, Hints& hints) {
  const spec::ParallelSpec& parallel = plan.parallel;
  const int replica_devices = plan.num_devices / std::max(1, parallel.pipeline_parallel_size);
  const bool crosses_nodes = parallel.pipeline_parallel_size > 1 &&
                             plan.num_devices > plan.cluster.devices_per_node &&
                             replica_devices % plan.cluster.devices_per_node == 0;
  if (!crosses_nodes) return;
  const int64_t shards = parallel.sequence_parallel ? parallel.tensor_parallel_size : 1;
  const double bytes = 2.0 * static_cast<double>(parallel.micro_batch_size) *
                       static_cast<double>(plan.training.sequence_length) *
                       static_cast<double>(plan.model.hidden_size) /
                       static_cast<double>(shards * parallel.context_parallel_size);
  constexpr double kChunkBytes = 2 * 1024 * 1024;
  if (bytes < kChunkBytes) return;
  hints.push_back({"NCCL_P2P_NET_CHUNKSIZE", "2097152",
                   Concat("Pipeline stages send ", FormatBytes(bytes),
                          " at once between nodes: larger chunks than the default keep a NIC "
                          "busy.")});
}

void AddNvlink(const spec::Plan& plan, Hints& hints) {
  constexpr int kLargestHost = 16;  // devices of one host; larger NVLink domains span several
  if (plan.cluster.devices_per_node > kLargestHost) {
    hints.push_back({"NCCL_MNNVL_ENABLE", "1",
                     Concat("The NVLink domain of ", plan.cluster.devices_per_node,
                            " devices spans several hosts, which NCCL must know of.")});
  }
  if (plan.prediction && plan.cluster.device.memory_bytes > 0) {
    const double share = static_cast<double>(plan.prediction->peak_bytes) /
                         static_cast<double>(plan.cluster.device.memory_bytes);
    constexpr double kNearlyFull = 0.85;
    if (share < kNearlyFull) return;
    hints.push_back({"NCCL_NVLS_ENABLE", "0",
                     Concat("The plan fills ", FormatPercent(share),
                            " of the memory: collectives in the NVLink switch take buffers of "
                            "their own on every communicator. Remove this line if memory is left "
                            "over.")});
    hints.push_back({"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True",
                     "The allocator grows its segments instead of leaving gaps between them, "
                     "which matters where memory is nearly full. Not together with CUDA graphs."});
  }
}

}  // namespace

Hints EnvironmentOf(const spec::Plan& plan, EmitTarget target) {
  Hints hints;
  if (plan.num_devices == 1 || plan.cluster.shared_compute_units > 0) return hints;
  if (target != EmitTarget::kTorchtitan) {
    AddConnections(plan.parallel, target == EmitTarget::kDeepspeed, hints);
  }
  AddNvlink(plan, hints);
  AddFabric(plan, hints);
  AddPipelineTransfers(plan, hints);
  hints.push_back({"TORCH_NCCL_AVOID_RECORD_STREAMS", "1",
                   "Memory of a finished collective is free for the next tensor at once, and not "
                   "only after the host has looked."});
  return hints;
}

std::string EnvironmentText(const Hints& hints, const std::string& prefix) {
  std::string text;
  for (const EnvironmentHint& hint : hints) {
    text += CommentLines(hint.reason, prefix + "# ");
    if (hint.value.empty()) {
      text += Concat(prefix, "unset ", hint.name, "\n");
    } else if (hint.is_settled) {
      text += Concat(prefix, "export ", hint.name, "=", hint.value, "\n");
    } else {
      text += Concat(prefix, "# FILL IN: export ", hint.name, "=", hint.value, "\n");
    }
  }
  return text;
}

}  // namespace tessera::planner
