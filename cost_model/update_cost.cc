#include "cost_model/update_cost.h"

#include <algorithm>
#include <cmath>

#include "cost_model/elementwise_cost.h"
#include "cost_model/op_cost.h"

namespace tessera::cost_model {
namespace {

constexpr double kGradientBytes = 4;  // fp32 in every precision
constexpr double kScalarBytes = 8;

// All-reduce of one number over the world: up and down a tree (Thakur et al. 2005).
double ScalarAllReduceSeconds(const Network& network) {
  const int ranks_on_node = network.ranks_on_node;
  const int num_nodes = (network.world_size + ranks_on_node - 1) / ranks_on_node;
  double seconds = 0;
  if (ranks_on_node > 1) {
    seconds +=
        2 * std::ceil(std::log2(ranks_on_node)) * IntraNodeTransferSeconds(kScalarBytes, network);
  }
  if (num_nodes > 1) {
    seconds +=
        2 * std::ceil(std::log2(num_nodes)) * InterNodeTransferSeconds(kScalarBytes, 1, network);
  }
  return seconds;
}

// Sums over a group of tensor ranks of gradients that they hold together.
double TensorCommSeconds(const JobCosts& costs, const spec::ParallelSpec& parallel,
                         const LayoutGroups& groups, const StageParameterCounts& parameters) {
  const Network& network = costs.network();
  double seconds = 0;
  if (parameters.tokenwise > 0) {
    seconds +=
        AllReduceSeconds(kGradientBytes * static_cast<double>(parameters.tokenwise),
                         PlaceGroup(groups.tensor, network.world_size, network.cluster), network);
  }
  if (parameters.kv_replicated > 0) {
    const int replicas = parallel.tensor_parallel_size / costs.job().model.num_key_value_heads;
    const RankGroup group{.size = replicas, .stride = groups.tensor.stride};
    seconds += AllReduceSeconds(kGradientBytes * static_cast<double>(parameters.kv_replicated),
                                PlaceGroup(group, network.world_size, network.cluster), network);
  }
  return seconds;
}

double TiedCommSeconds(const JobCosts& costs, const spec::ParallelSpec& parallel,
                       const LayoutGroups& groups, int64_t elements) {
  if (elements == 0) return 0;
  const Network& network = costs.network();
  const RankGroup group{.size = 2,
                        .stride = groups.pipeline.stride * (parallel.pipeline_parallel_size - 1)};
  return AllReduceSeconds(kGradientBytes * static_cast<double>(elements),
                          PlaceGroup(group, network.world_size, network.cluster), network);
}

double OptimizerSeconds(const JobCosts& costs, int64_t elements) {
  const spec::PrecisionTypes types = spec::TypesOf(costs.job().training.precision);
  const auto own_type_bytes =
      types.has_master_weights ? static_cast<double>(base::SizeBytes(types.parameter)) : 0;
  return OptimizerTime(elements, own_type_bytes, costs.device()).device_s;
}

}  // namespace

StageParameterCounts CountParameters(const ParameterCounts& counts,
                                     const spec::PerForm<int>& num_layers, bool has_embedding,
                                     bool has_head) {
  StageParameterCounts stage;
  const auto add = [&](const PartParameters& part, int64_t times) {
    stage.elements += times * part.elements;
    stage.expert_elements += times * part.expert_elements;
    stage.tokenwise += times * part.tokenwise;
    stage.kv_replicated += times * part.kv_replicated;
  };
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) add(counts.layers[i], num_layers[i]);
  if (has_embedding) add(counts.embedding, 1);
  if (has_head) add(counts.head, 1);
  if (has_embedding || has_head) stage.tied = counts.tied_embedding;
  return stage;
}

UpdateCost MakeUpdateCost(const JobCosts& costs, const spec::ParallelSpec& parallel,
                          const LayoutGroups& groups, const StageParameterCounts& parameters) {
  const Network& network = costs.network();
  const GroupPlacement placement = PlaceGroup(groups.gradient, network.world_size, network.cluster);
  const bool sharded = parallel.zero_stage >= 1;
  const int64_t own_elements =
      sharded ? parameters.elements / groups.gradient.size : parameters.elements;

  UpdateCost cost;
  cost.num_buckets = std::max<int64_t>(1, parameters.elements / parallel.bucket_elements);
  const auto num_buckets = static_cast<double>(cost.num_buckets);
  if (groups.gradient.size > 1) {
    const double bucket_elements = static_cast<double>(parameters.elements) / num_buckets;
    const double gradient_bytes = kGradientBytes * bucket_elements;
    const spec::PrecisionTypes types = spec::TypesOf(costs.job().training.precision);
    const double parameter_bytes =
        static_cast<double>(base::SizeBytes(types.parameter)) * bucket_elements;
    cost.gradient_comm_s =
        num_buckets * (sharded ? ReduceScatterSeconds(gradient_bytes, placement, network)
                               : AllReduceSeconds(gradient_bytes, placement, network));
    if (sharded) {
      cost.gather_comm_s = num_buckets * AllGatherSeconds(parameter_bytes, placement, network);
    }
  }
  cost.tied_comm_s = TiedCommSeconds(costs, parallel, groups, parameters.tied);
  cost.tensor_comm_s = TensorCommSeconds(costs, parallel, groups, parameters);
  cost.optimizer_s = OptimizerSeconds(costs, own_elements);
  cost.other_s =
      MemorySeconds(kGradientBytes * static_cast<double>(parameters.elements), costs.device()) +
      MemorySeconds(kGradientBytes * static_cast<double>(own_elements), costs.device()) +
      ScalarAllReduceSeconds(network);
  return cost;
}

double ExposedReductionSeconds(const UpdateCost& update, double window_s, bool overlaps) {
  if (!overlaps) return update.gradient_comm_s;
  const auto n = static_cast<double>(update.num_buckets);
  const double bucket_s = update.gradient_comm_s / n;
  return std::max(bucket_s, update.gradient_comm_s - window_s * (n - 1) / n);
}

}  // namespace tessera::cost_model
