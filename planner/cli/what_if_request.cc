// From flags to the points of a sweep: declared in what_if_options.h.
#include <algorithm>

#include "cost_model/base/error.h"
#include "planner/cli/what_if_options.h"
#include "planner/what_if/cluster_change.h"
#include "planner/what_if/quantity_text.h"

namespace tessera::planner {
namespace {

// The values in their order, each once.
template <typename T>
std::vector<T> Distinct(const std::vector<T>& values) {
  std::vector<T> distinct;
  for (const T& value : values) {
    if (std::find(distinct.begin(), distinct.end(), value) == distinct.end()) {
      distinct.push_back(value);
    }
  }
  return distinct;
}

// The values, or one that stands for the default where none is given.
template <typename T>
std::vector<std::optional<T>> OrDefault(const std::vector<T>& values) {
  if (values.empty()) return {std::nullopt};
  const std::vector<T> distinct = Distinct(values);
  return {distinct.begin(), distinct.end()};
}

// Sets of changes that make one variant each.
using Variants = std::vector<std::vector<ClusterChange>>;

// Every variant so far with every one of the values.
void Multiply(ClusterQuantity quantity, const std::vector<std::string>& texts, const char* flag,
              double (*parse)(const std::string&, const std::string&), double unit,
              Variants& variants) {
  if (texts.empty()) return;
  Variants multiplied;
  for (const std::vector<ClusterChange>& variant : variants) {
    for (const std::string& text : Distinct(texts)) {
      const Scaling scaling = ParseScaling(text, flag, parse);
      multiplied.push_back(variant);
      multiplied.back().push_back(
          {quantity, scaling.is_factor, scaling.value * (scaling.is_factor ? 1 : unit)});
    }
  }
  variants = std::move(multiplied);
}

double OnlyFactors(const std::string& text, const std::string& flag) {
  throw base::ConfigError(flag, "", text, "a factor such as 2x");
}

double WholeNumber(const std::string& text, const std::string& flag) {
  const double value = ParseCount(text, flag);
  constexpr double kMost = 1024;
  if (value < 1 || value > kMost || value != static_cast<int>(value)) {
    throw base::ConfigError(flag, "", text, "a whole number up to 1024, or a factor such as 2x");
  }
  return value;
}

// The cluster as described, then those that the flags change it to.
Variants VariantsOf(const WhatIfOptions& options) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  Variants variants = {{}};
  Multiply(ClusterQuantity::kInterNodeBandwidth, options.inter_node_bandwidths,
           "--inter-node-bandwidths", ParseBandwidth, 1, variants);
  Multiply(ClusterQuantity::kIntraNodeBandwidth, options.intra_node_bandwidths,
           "--intra-node-bandwidths", ParseBandwidth, 1, variants);
  Multiply(ClusterQuantity::kNicsPerNode, options.nics_per_node, "--nics-per-node", WholeNumber, 1,
           variants);
  Multiply(ClusterQuantity::kMemory, options.memories, "--memory-gib", ParseCount, kGib, variants);
  Multiply(ClusterQuantity::kDeviceSpeed, options.device_speeds, "--device-speeds", OnlyFactors, 1,
           variants);
  if (!variants.front().empty()) variants.insert(variants.begin(), std::vector<ClusterChange>());
  return variants;
}

// The job of a model on a cluster, with the batch that one node would have by default: the points
// of a sweep differ in what was asked, not in what was not.
Request BaseRequest(const WhatIfOptions& options, const std::string& model,
                    const std::string& cluster, std::optional<int64_t> sequence_length,
                    std::vector<std::string>& notes) {
  JobOptions job = options.job;
  job.model = model;
  job.cluster = cluster;
  job.sequence_length = sequence_length;
  if (!options.global_batch_sizes.empty()) job.global_batch_size = options.global_batch_sizes[0];
  return MakeRequest(job, notes);
}

// Whole nodes, doubled up to what few trainings have used: where only a budget is given, what it
// pays for fastest is asked of all of them.
std::vector<int> DoubledNodes(const spec::ClusterSpec& cluster) {
  constexpr int kMostDevices = 16'384;
  const int most =
      cluster.max_devices > 0 ? std::min(cluster.max_devices, kMostDevices) : kMostDevices;
  std::vector<int> counts;
  for (int count = cluster.devices_per_node; count <= most; count *= 2) counts.push_back(count);
  return counts;
}

std::vector<std::optional<int>> DeviceCountsOf(const WhatIfOptions& options,
                                               const spec::ClusterSpec& cluster) {
  const bool asks_for_budget = !options.budget.empty() && options.within.empty();
  if (options.device_counts.empty() && asks_for_budget) return OrDefault(DoubledNodes(cluster));
  return OrDefault(options.device_counts);
}

void AddPoints(const WhatIfOptions& options, const Request& base, const Variants& variants,
               WhatIfRequest& request) {
  for (const std::vector<ClusterChange>& variant : variants) {
    Request changed = base;
    for (const ClusterChange& change : variant) Apply(change, changed.job.cluster);
    // A change to what the cluster has anyway is none.
    if (!variant.empty() && changed.job.cluster == base.job.cluster) continue;
    for (const std::optional<int>& num_devices : DeviceCountsOf(options, base.job.cluster)) {
      for (const std::optional<int64_t>& batch : OrDefault(options.global_batch_sizes)) {
        SweepPoint point{changed, ChangesText(variant)};
        if (num_devices) point.request.job.num_devices = *num_devices;
        if (batch) point.request.job.training.global_batch_size = *batch;
        request.points.push_back(std::move(point));
      }
    }
  }
}

// A budget is no question where nobody knows a price.
void CheckPrices(const WhatIfRequest& request) {
  if (!request.terms.budget_usd) return;
  for (const SweepPoint& point : request.points) {
    if (PriceOf(point.request.job.cluster, request.terms)) continue;
    const std::string& name = point.request.job.cluster.name;
    throw base::ConfigError("--budget", "", base::Concat("no price for ", name),
                            base::Concat("--price ", name, "=DOLLARS for an hour of a device"));
  }
}

// Far beyond what a person reads.
constexpr size_t kMostPoints = 100'000;

}  // namespace

WhatIfRequest MakeWhatIfRequest(const WhatIfOptions& options, std::vector<std::string>& notes) {
  if (options.models.empty()) throw base::ConfigError("--model is required");
  if (options.clusters.empty()) throw base::ConfigError("--clusters is required");
  WhatIfRequest request;
  const Variants variants = VariantsOf(options);
  std::vector<std::string> names;
  for (const std::string& model : Distinct(options.models)) {
    for (const std::string& cluster : Distinct(options.clusters)) {
      for (const std::optional<int64_t>& sequence_length : OrDefault(options.sequence_lengths)) {
        const Request base = BaseRequest(options, model, cluster, sequence_length, notes);
        names.push_back(base.job.cluster.name);
        AddPoints(options, base, variants, request);
        if (request.points.size() > kMostPoints) {
          throw base::ConfigError(base::Concat("more than ", kMostPoints, " points to search"));
        }
      }
    }
  }
  notes = Distinct(notes);
  request.terms = MakeRunTerms(options, Distinct(names));
  request.searches_devices = request.terms.within_s && options.device_counts.empty();
  request.finds_margins = options.finds_margins;
  CheckPrices(request);
  return request;
}

}  // namespace tessera::planner
