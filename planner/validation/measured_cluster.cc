#include "planner/validation/measured_cluster.h"

#include <algorithm>
#include <cmath>
#include <regex>

namespace tessera::planner {
namespace {

constexpr double kBytesPerGigabit = 1e9 / 8;

}  // namespace

NodeLinks ParseInterNode(const std::string& text) {
  NodeLinks links;
  std::smatch match;
  static const std::regex kNics(R"((\d{1,4})\s*x\s*(\d{1,6}(?:\.\d+)?)\s*Gb)");
  static const std::regex kSpeed(R"((\d{1,6}(?:\.\d+)?)\s*Gb)");
  if (std::regex_search(text, match, kNics)) {
    links.num_nics = std::stoi(match[1]);
    links.nic_bandwidth_bytes_per_s = std::stod(match[2]) * kBytesPerGigabit;
    links.node_bandwidth_bytes_per_s = links.num_nics * links.nic_bandwidth_bytes_per_s;
  } else if (std::regex_search(text, match, kSpeed)) {
    const double bandwidth = std::stod(match[1]) * kBytesPerGigabit;
    if (text.find("per node") != std::string::npos) {
      links.node_bandwidth_bytes_per_s = bandwidth;
    } else {
      links.nic_bandwidth_bytes_per_s = bandwidth;
    }
  }
  return links;
}

double ParseIntraNode(const std::string& text) {
  std::smatch match;
  static const std::regex kSpeed(R"((\d{1,6}(?:\.\d+)?)\s*GB/s)");
  if (!std::regex_search(text, match, kSpeed)) return 0;
  return std::stod(match[1]) * 1e9 / 2;
}

void FitCluster(const MeasuredHardware& hardware, spec::ClusterSpec& cluster) {
  const double nics_per_device =
      static_cast<double>(cluster.nics_per_node) / cluster.devices_per_node;
  const NodeLinks links = ParseInterNode(hardware.inter_node);
  if (links.nic_bandwidth_bytes_per_s > 0) {
    cluster.inter_node.bandwidth_bytes_per_s = links.nic_bandwidth_bytes_per_s;
  }
  cluster.devices_per_node =
      static_cast<int>(hardware.devices_per_node.value_or(cluster.devices_per_node));
  if (hardware.nvlink_domain_size) {
    cluster.devices_per_domain = static_cast<int>(*hardware.nvlink_domain_size);
  }
  double num_nics = nics_per_device * cluster.devices_per_node;
  if (links.num_nics > 0) {
    num_nics = links.num_nics;
  } else if (links.node_bandwidth_bytes_per_s > 0) {
    // As many NICs of the cluster's kind as make up the node's bandwidth.
    const double nics = links.node_bandwidth_bytes_per_s / cluster.inter_node.bandwidth_bytes_per_s;
    num_nics = std::max(1.0, std::round(nics));
    cluster.inter_node.bandwidth_bytes_per_s = links.node_bandwidth_bytes_per_s / num_nics;
  }
  cluster.nics_per_node = std::max(1, static_cast<int>(std::lround(num_nics)));
  // Ethernet ports of a node are bonded or switched together: no rails.
  for (const char* const kind : {"RoCE", "EFA"}) {
    if (hardware.inter_node.find(kind) != std::string::npos) cluster.fabric.rail_nics = false;
  }
  if (const double bandwidth = ParseIntraNode(hardware.intra_node); bandwidth > 0) {
    cluster.intra_node.bandwidth_bytes_per_s = bandwidth;
  }
}

}  // namespace tessera::planner
