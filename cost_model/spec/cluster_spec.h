// The machines: devices, nodes, links, and how well each kind of operation uses them. Every number
// is data of a cluster file, with its source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/base/dtype.h"

namespace tessera::spec {

// Where a number comes from. `tag` is one of spec, measured, fitted, assumed.
struct NumberSource {
  std::string tag;
  std::string text;
  bool operator==(const NumberSource&) const = default;
};

// Fraction of the peak that is reached from a given size on; linear in log(size) between points,
// constant outside. Sizes ascend.
struct EfficiencyPoint {
  double size = 0;  // of the table's own measure
  double efficiency = 1;
  bool operator==(const EfficiencyPoint&) const = default;
};
using EfficiencyTable = std::vector<EfficiencyPoint>;

// How a GPU runs kernels. Matrix products are cut into output tiles, of which a compute unit (SM)
// works on one at a time.
struct KernelSpec {
  int num_compute_units = 0;
  // Tiles that products choose from: rows and columns are the largest ones halved until they fall
  // below the smallest.
  int largest_tile_rows = 0;
  int largest_tile_columns = 0;
  int smallest_tile = 0;
  // Dense FLOP/s that an unboundedly large product sustains, by input type, at the clock that the
  // power limit leaves; the peak where a type is missing.
  std::map<base::DType, double> sustained_flops_per_s;
  // Loading the operands of a tile of r rows and c columns slows its main loop by
  // 1 + tile_load_cost * (1 / r + 1 / c).
  double tile_load_cost = 0;
  // Starting and finishing a tile takes as long as so many more elements of the inner dimension.
  double tile_overhead_k = 0;
  // Time of a product of 16-bit numbers, as a multiple, where rows of its operands or of its result
  // have an odd number of elements; where they are multiples of 4 or 8 bytes, in between.
  double misaligned_time_factor = 1;
  double misaligned_batch_time_factor = 1;  // the same of a batch of products
  // Fused attention: share of the sustained rate that its products reach, and the scores that the
  // device exponentiates in a second beside them.
  double attention_forward_efficiency = 1;
  double attention_backward_efficiency = 1;
  double scores_per_s = 0;
  // What an eager framework's host takes for each kernel, and beyond that for each collective.
  double host_s_per_kernel = 0;
  double host_s_per_collective = 0;
  bool operator==(const KernelSpec&) const = default;
};

struct DeviceSpec {
  std::string name;
  int64_t memory_bytes = 0;
  // Taken by the runtime before the first tensor: context, kernels, libraries.
  int64_t reserved_memory_bytes = 0;
  int64_t communicator_memory_bytes = 0;  // buffers of the collectives of one group of ranks
  int64_t matmul_workspace_bytes = 0;     // scratch memory of the library for matrix products
  double memory_bandwidth_bytes_per_s = 0;
  std::map<base::DType, double> peak_flops_per_s;  // dense, per matrix-product input type
  double launch_overhead_s = 0;                    // least time of one operation
  EfficiencyTable matmul_efficiency;               // by FLOPs of one product
  EfficiencyTable attention_efficiency;            // by FLOPs of one attention call
  EfficiencyTable memory_efficiency;               // by bytes moved by one operation
  // Prices operations by their shape; without it the two tables by FLOPs do.
  std::optional<KernelSpec> kernels;
  double power_w = 0;         // 0: unknown
  double price_per_hour = 0;  // 0: unknown; in US dollars
  bool operator==(const DeviceSpec&) const = default;
};

struct LinkSpec {
  double bandwidth_bytes_per_s = 0;  // one direction; per device inside a domain, per NIC between
  double latency_s = 0;              // of one message
  double efficiency = 1;             // share of the bandwidth that large collectives reach
  EfficiencyTable size_efficiency;   // further factor by message bytes; empty: 1
  bool operator==(const LinkSpec&) const = default;
};

// A way to send the messages of a collective that trades bandwidth for latency (NCCL: LL, LL128).
struct ProtocolSpec {
  double bandwidth_share = 1;  // of what large messages reach
  double intra_node_latency_s = 0;
  double inter_node_latency_s = 0;
  bool operator==(const ProtocolSpec&) const = default;
};

// What the communication library and the switches can do, and what it costs the computing beside.
// Defaults: rings alone, their messages at the links' own latencies.
struct CollectiveSpec {
  double overhead_s = 0;  // of one collective or transfer, whatever its size: launch and meeting
  std::vector<ProtocolSpec> protocols;  // beside the one at full bandwidth and the links' latencies
  // Whether a collective across nodes may run in levels: within the nodes, between them, within.
  bool hierarchical = true;
  // Share of a ring's bandwidth that double binary trees and their like reach; 0: there are none.
  double tree_efficiency = 0;
  // Share of the link bandwidth that reductions inside the switches reach (NVLink SHARP); 0: none.
  double nvls_efficiency = 0;
  double nvls_latency_s = 0;  // up to the switches and back
  // Communication that runs beside computing takes cores and memory bandwidth from it: the share by
  // which the computing takes longer meanwhile.
  double overlap_slowdown = 0;
  bool operator==(const CollectiveSpec&) const = default;
};

// The network between NVLink domains.
struct FabricSpec {
  // True: each device sends through the NIC beside it alone, and where several devices share a NIC,
  // a group with some but not all of a node's devices enters and leaves by one NIC, that of its
  // first device there. False: all devices of a node share all its NICs.
  bool rail_nics = false;
  // Nodes under switches that are not oversubscribed; 0: all of them. Beyond, links between such
  // pods carry 1 / oversubscription of what their nodes can send.
  int pod_nodes = 0;
  double oversubscription = 1;
  bool operator==(const FabricSpec&) const = default;
};

// The host that devices of a node share, for an optimizer that runs there. 0: unknown.
struct HostSpec {
  double device_link_bandwidth_bytes_per_s = 0;  // between host and one device, one direction
  double memory_bandwidth_bytes_per_s = 0;       // of the node, as an update of parameters sees it
  bool operator==(const HostSpec&) const = default;
};

struct ClusterSpec {
  std::string name;
  DeviceSpec device;
  int devices_per_node = 1;  // that share a host and its NICs
  int nics_per_node = 1;
  // Devices that `intra_node` links join, several nodes' in an NVLink rack; 0: those of one node.
  int devices_per_domain = 0;
  LinkSpec intra_node;
  LinkSpec inter_node;
  CollectiveSpec collectives;
  FabricSpec fabric;
  // Devices of one type are not equally fast: the standard deviation of a device's pace as a share
  // of it. 0: they are.
  double pace_deviation = 0;
  HostSpec host;
  // Devices that are slices of one shared pool: on `local-cpu` any number of ranks share
  // `shared_compute_units` cores, and device numbers above are those of one core; memory_bytes and
  // memory_bandwidth are the whole node's. 0: each device stands on its own.
  int shared_compute_units = 0;
  int max_devices = 0;                          // 0: as many as asked for
  std::map<std::string, NumberSource> sources;  // by JSON pointer into the cluster file
  bool operator==(const ClusterSpec&) const = default;
};

// Devices that intra-node links join.
inline int DevicesPerDomain(const ClusterSpec& cluster) {
  return std::max(cluster.devices_per_domain, cluster.devices_per_node);
}

}  // namespace tessera::spec
