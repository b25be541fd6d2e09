#include "planner/what_if/cluster_change.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

// As few decimals as tell the value, two at most.
std::string ShortNumber(double value) {
  std::string text = FormatFixed(value, 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

void ScaleSpeed(double factor, spec::DeviceSpec& device) {
  for (auto& [type, peak] : device.peak_flops_per_s) peak *= factor;
  device.memory_bandwidth_bytes_per_s *= factor;
  if (!device.kernels) return;
  for (auto& [type, rate] : device.kernels->sustained_flops_per_s) rate *= factor;
  device.kernels->scores_per_s *= factor;
}

const char* QuantityName(ClusterQuantity quantity) {
  switch (quantity) {
    case ClusterQuantity::kInterNodeBandwidth:
      return "bandwidth between nodes";
    case ClusterQuantity::kIntraNodeBandwidth:
      return "bandwidth inside a node";
    case ClusterQuantity::kNicsPerNode:
      return "NICs a node";
    case ClusterQuantity::kMemory:
      return "memory of a device";
    case ClusterQuantity::kDeviceSpeed:
      return "speed of a device";
  }
  return "?";
}

std::string ValueText(const ClusterChange& change) {
  switch (change.quantity) {
    case ClusterQuantity::kInterNodeBandwidth:
    case ClusterQuantity::kIntraNodeBandwidth:
      return FormatSi(change.value) + "B/s";
    case ClusterQuantity::kMemory:
      return FormatBytes(change.value);
    default:
      return ShortNumber(change.value);
  }
}

}  // namespace

void Apply(const ClusterChange& change, spec::ClusterSpec& cluster) {
  TESSERA_CHECK(change.value > 0, "no change: ", change.value);
  const auto changed = [&](double value) {
    return change.is_factor ? value * change.value : change.value;
  };
  switch (change.quantity) {
    case ClusterQuantity::kInterNodeBandwidth:
      cluster.inter_node.bandwidth_bytes_per_s = changed(cluster.inter_node.bandwidth_bytes_per_s);
      return;
    case ClusterQuantity::kIntraNodeBandwidth:
      cluster.intra_node.bandwidth_bytes_per_s = changed(cluster.intra_node.bandwidth_bytes_per_s);
      return;
    case ClusterQuantity::kNicsPerNode:
      cluster.nics_per_node = std::max(1, static_cast<int>(changed(cluster.nics_per_node)));
      return;
    case ClusterQuantity::kMemory:
      cluster.device.memory_bytes =
          static_cast<int64_t>(changed(static_cast<double>(cluster.device.memory_bytes)));
      return;
    case ClusterQuantity::kDeviceSpeed:
      TESSERA_CHECK(change.is_factor, "a device's speed has many numbers");
      ScaleSpeed(change.value, cluster.device);
      return;
  }
}

std::string ChangeText(const ClusterChange& change) {
  const char* name = QuantityName(change.quantity);
  if (change.is_factor) return base::Concat(ShortNumber(change.value), "x ", name);
  return base::Concat(ValueText(change), " ", name);
}

std::string ChangesText(const std::vector<ClusterChange>& changes) {
  std::string text;
  for (const ClusterChange& change : changes) {
    text += base::Concat(text.empty() ? "" : ", ", ChangeText(change));
  }
  return text;
}

}  // namespace tessera::planner
