// The machines that a row ran on: the cluster file of its GPU with the row's own nodes and links.
#pragma once

#include <optional>
#include <string>

#include "cost_model/spec/cluster_spec.h"
#include "planner/validation/measurement.h"

namespace tessera::planner {

// NICs of a node, or bytes per second of all of them together.
struct NodeLinks {
  int num_nics = 0;                       // 0: not said
  double nic_bandwidth_bytes_per_s = 0;   // one direction; 0: not said
  double node_bandwidth_bytes_per_s = 0;  // 0: not said
};
// "8x200Gb HDR IB per node", "1600Gb/s RoCE per node", "InfiniBand 200Gb/s" (each NIC), "4x400Gb
// per 4-GPU tray". Zeros where the text has no number followed by "Gb".
NodeLinks ParseInterNode(const std::string& text);

// "NVLink3 600GB/s": both directions together, as data sheets count. Returns bytes per second of
// one direction; 0 where the text has no number followed by "GB/s".
double ParseIntraNode(const std::string& text);

// Puts the row's NVLink domain, links and NICs over those of `cluster`.
void FitCluster(const MeasuredHardware& hardware, spec::ClusterSpec& cluster);

}  // namespace tessera::planner
