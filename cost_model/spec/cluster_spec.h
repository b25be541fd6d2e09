// The machines: devices, nodes, links, and how well each kind of operation uses them. Every number
// is data of a cluster file, with its source.
#pragma once

#include <cstdint>
#include <map>
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

struct DeviceSpec {
  std::string name;
  int64_t memory_bytes = 0;
  // Taken by the runtime before the first tensor: CUDA context, communication buffers.
  int64_t reserved_memory_bytes = 0;
  double memory_bandwidth_bytes_per_s = 0;
  std::map<base::DType, double> peak_flops_per_s;  // dense, per matrix-product input type
  double launch_overhead_s = 0;                    // least time of one operation
  EfficiencyTable matmul_efficiency;               // by FLOPs of one product
  EfficiencyTable attention_efficiency;            // by FLOPs of one attention call
  EfficiencyTable memory_efficiency;               // by bytes moved by one operation
  double power_w = 0;                              // 0: unknown
  double price_per_hour = 0;                       // 0: unknown; in US dollars
  bool operator==(const DeviceSpec&) const = default;
};

struct LinkSpec {
  double bandwidth_bytes_per_s = 0;  // one direction; per device inside a node, per NIC between
  double latency_s = 0;              // of one message
  double efficiency = 1;             // share of the bandwidth that large collectives reach
  EfficiencyTable size_efficiency;   // further factor by message bytes; empty: 1
  bool operator==(const LinkSpec&) const = default;
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
  int devices_per_node = 1;  // of one NVLink (or shared-memory) domain
  int nics_per_node = 1;
  LinkSpec intra_node;
  LinkSpec inter_node;
  HostSpec host;
  // Devices that are slices of one shared pool: on `local-cpu` any number of ranks share
  // `shared_compute_units` cores, and device numbers above are those of one core; memory_bytes and
  // memory_bandwidth are the whole node's. 0: each device stands on its own.
  int shared_compute_units = 0;
  int max_devices = 0;                          // 0: as many as asked for
  std::map<std::string, NumberSource> sources;  // by JSON pointer into the cluster file
  bool operator==(const ClusterSpec&) const = default;
};

}  // namespace tessera::spec
