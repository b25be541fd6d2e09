// Clusters that differ from their description in a few numbers.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/cluster_spec.h"

namespace tessera::planner {

enum class ClusterQuantity : uint8_t {
  kInterNodeBandwidth,
  kIntraNodeBandwidth,
  kNicsPerNode,
  kMemory,       // of a device
  kDeviceSpeed,  // FLOP/s and memory bandwidth of a device together
};

struct ClusterChange {
  ClusterQuantity quantity = ClusterQuantity::kInterNodeBandwidth;
  bool is_factor = false;  // otherwise `value` takes the place of the cluster's; in SI units
  double value = 0;
};

// Applies a change. NICs are rounded down to a whole number, at least one.
// REQUIRES: the value is positive; the speed of a device changes by a factor only.
void Apply(const ClusterChange& change, spec::ClusterSpec& cluster);

// "2x bandwidth between nodes", "4 NICs a node".
std::string ChangeText(const ClusterChange& change);
// Several, with commas; empty for none.
std::string ChangesText(const std::vector<ClusterChange>& changes);

}  // namespace tessera::planner
