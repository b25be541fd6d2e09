#include "cost_model/update_cost.h"

#include <algorithm>
#include <cmath>

#include "cost_model/elementwise_cost.h"
#include "cost_model/number_bytes.h"
#include "cost_model/op_cost.h"
#include "cost_model/overlap.h"
#include "cost_model/spec/flat_layout.h"

namespace tessera::cost_model {
namespace {

constexpr double kScalarBytes = 8;

double GradientBytes(const JobCosts& costs, const spec::ParallelSpec& parallel) {
  return static_cast<double>(spec::GradientBytes(costs.job().training, parallel));
}

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
  const double gradient_bytes = GradientBytes(costs, parallel);
  double seconds = 0;
  if (parameters.tokenwise > 0) {
    seconds +=
        AllReduceSeconds(gradient_bytes * static_cast<double>(parameters.tokenwise),
                         PlaceGroup(groups.tensor, network.world_size, network.cluster), network);
  }
  if (parameters.kv_replicated > 0) {
    const int replicas = parallel.tensor_parallel_size / costs.job().model.num_key_value_heads;
    const RankGroup group{.size = replicas, .stride = groups.tensor.stride};
    seconds += AllReduceSeconds(gradient_bytes * static_cast<double>(parameters.kv_replicated),
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
  return AllReduceSeconds(GradientBytes(costs, parallel) * static_cast<double>(elements),
                          PlaceGroup(group, network.world_size, network.cluster), network);
}

// On the device: its memory traffic.
double OptimizerSeconds(const JobCosts& costs, int64_t elements) {
  const spec::PrecisionTypes types = spec::TypesOf(costs.job().training.precision);
  const auto own_type_bytes =
      types.has_master_weights ? static_cast<double>(base::SizeBytes(types.parameter)) : 0;
  return OptimizerTime(elements, own_type_bytes, costs.device()).device_s;
}

// On the host, one after the other: gradients arrive, the update, parameters leave.
double HostOptimizerSeconds(const JobCosts& costs, const spec::ParallelSpec& parallel,
                            int64_t elements) {
  const spec::HostSpec& host = costs.job().cluster.host;
  const spec::PrecisionTypes types = spec::TypesOf(costs.job().training.precision);
  const auto count = static_cast<double>(elements);
  const double sent_bytes = count * (GradientBytes(costs, parallel) +
                                     static_cast<double>(base::SizeBytes(types.parameter)));
  const double state_bytes = spec::MemoryBytesOf({.kind = base::OpKind::kAdamW, .dims = {elements}},
                                                 costs.device().element_bytes);
  return sent_bytes / host.device_link_bandwidth_bytes_per_s +
         state_bytes * costs.network().ranks_on_node / host.memory_bandwidth_bytes_per_s;
}

// `elements` in `num_parts` collectives of equal size.
template <typename Collective>
double InParts(int64_t elements, double bytes_each, double num_parts, Collective seconds_of) {
  if (elements == 0) return 0;
  return num_parts * seconds_of(bytes_each * (static_cast<double>(elements) / num_parts));
}

// Fills in what data ranks reduce and gather.
void AddDataComm(const JobCosts& costs, const spec::ParallelSpec& parallel,
                 const LayoutGroups& groups, const StageParameterCounts& parameters,
                 UpdateCost& cost) {
  const Network& network = costs.network();
  const ReductionPlacements placements = PlaceReductions(groups, network);
  const bool is_sharded = parallel.zero_stage >= 1;
  const auto num_buckets = static_cast<double>(cost.num_buckets);
  const double parameter_bytes =
      static_cast<double>(base::SizeBytes(spec::TypesOf(costs.job().training.precision).parameter));
  const double gradient_bytes = GradientBytes(costs, parallel);
  const auto add_reduction = [&](int64_t elements, const ReductionGroups& on) {
    if (!spec::ReducesEachMicrobatch(parallel)) {
      cost.gradient_comm_s += InParts(elements, gradient_bytes, num_buckets, [&](double bytes) {
        return ReductionSeconds(bytes, is_sharded, on, network);
      });
      return;
    }
    // Stage 3 scatters part by part, see AddShardingCosts.
    if (parallel.zero_stage < 3) {
      cost.gradient_comm_s += InParts(elements, gradient_bytes, num_buckets, [&](double bytes) {
        return ScatterSeconds(bytes, on, network);
      });
    }
    if (elements == 0) return;
    cost.replica_comm_s +=
        ReplicaReductionSeconds(gradient_bytes * static_cast<double>(elements), on, network);
  };
  const auto add = [&](int64_t elements, const ReductionGroups& on) {
    add_reduction(elements, on);
    if (!is_sharded || parallel.zero_stage == 3 || on.shard.size == 1) return;
    cost.gather_comm_s += InParts(elements, parameter_bytes, num_buckets, [&](double bytes) {
      return AllGatherSeconds(bytes, on.shard, network);
    });
  };
  add(parameters.elements - parameters.expert_elements, placements.dense);
  add(parameters.expert_elements, placements.expert);
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

ReductionPlacements PlaceReductions(const LayoutGroups& groups, const Network& network) {
  const auto place = [&](const RankGroup& group) {
    return PlaceGroup(group, network.world_size, network.cluster);
  };
  return {.dense = {.gradient = place(groups.gradient),
                    .shard = place(groups.shard),
                    .replica = place(groups.shard_replica)},
          .expert = {.gradient = place(groups.expert_data),
                     .shard = place(groups.expert_shard),
                     .replica = place(groups.expert_shard_replica)}};
}

double ReductionSeconds(double bytes, bool is_sharded, const ReductionGroups& groups,
                        const Network& network) {
  if (groups.gradient.size == 1) return 0;
  if (!is_sharded) return AllReduceSeconds(bytes, groups.gradient, network);
  return ScatterSeconds(bytes, groups, network) + ReplicaReductionSeconds(bytes, groups, network);
}

double ScatterSeconds(double bytes, const ReductionGroups& groups, const Network& network) {
  return groups.shard.size > 1 ? ReduceScatterSeconds(bytes, groups.shard, network) : 0;
}

double ReplicaReductionSeconds(double bytes, const ReductionGroups& groups,
                               const Network& network) {
  if (groups.replica.size == 1) return 0;
  return AllReduceSeconds(bytes / groups.shard.size, groups.replica, network);
}

UpdateCost MakeUpdateCost(const JobCosts& costs, const spec::ParallelSpec& parallel,
                          const LayoutGroups& groups, const StageParameterCounts& parameters) {
  const Network& network = costs.network();
  const int64_t dense_elements = parameters.elements - parameters.expert_elements;
  int64_t own_elements = parameters.elements;
  if (parallel.zero_stage >= 1) {
    own_elements =
        dense_elements / groups.shard.size + parameters.expert_elements / groups.expert_shard.size;
  }
  // Gradients summed up as they are reduced are held as a shard.
  const bool holds_shards = spec::ReducesEachMicrobatch(parallel);
  const int64_t held_elements = holds_shards ? own_elements : parameters.elements;
  // What model ranks share is added up last, of what is held.
  StageParameterCounts shared = parameters;
  for (int64_t* const elements : {&shared.tied, &shared.tokenwise, &shared.kv_replicated}) {
    if (holds_shards) *elements /= groups.shard.size;
  }
  const double gradient_bytes = GradientBytes(costs, parallel);

  UpdateCost cost;
  cost.num_buckets = std::max<int64_t>(1, parameters.elements / parallel.bucket_elements);
  AddDataComm(costs, parallel, groups, parameters, cost);
  cost.tied_comm_s = TiedCommSeconds(costs, parallel, groups, shared.tied);
  cost.tensor_comm_s = TensorCommSeconds(costs, parallel, groups, shared);
  cost.optimizer_s = parallel.offload_optimizer
                         ? HostOptimizerSeconds(costs, parallel, own_elements)
                         : OptimizerSeconds(costs, own_elements);
  cost.other_s =
      MemorySeconds(gradient_bytes * static_cast<double>(held_elements), costs.device()) +
      MemorySeconds(gradient_bytes * static_cast<double>(own_elements), costs.device()) +
      ScalarAllReduceSeconds(network);
  return cost;
}

double ExposedPartsSeconds(double comm_s, int64_t num_parts, double window_s, bool overlaps,
                           double slowdown) {
  if (!overlaps) return comm_s;
  const double last_s = comm_s / static_cast<double>(num_parts);
  const double share = 1 - 1 / static_cast<double>(num_parts);
  return last_s + ExposedSeconds(comm_s - last_s, window_s * share, slowdown);
}

}  // namespace tessera::cost_model
