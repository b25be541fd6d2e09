// What follows a stage's last backward pass: gradients are reduced, the optimizer runs, updated
// parameters are gathered.
#pragma once

#include "cost_model/job_costs.h"

namespace tessera::cost_model {

// Parameters of one rank of a pipeline stage, in elements.
struct StageParameterCounts {
  int64_t elements = 0;
  int64_t expert_elements = 0;  // of them, those of the experts held here
  int64_t tied = 0;
  int64_t tokenwise = 0;
  int64_t kv_replicated = 0;
  bool operator==(const StageParameterCounts&) const = default;
};
StageParameterCounts CountParameters(const ParameterCounts& counts,
                                     const spec::PerForm<int>& num_layers, bool has_embedding,
                                     bool has_head);

struct UpdateCost {
  // Before the gradient norm, at which all stages meet.
  double gradient_comm_s = 0;  // all buckets of one rank, over data and context ranks
  double replica_comm_s = 0;   // of shards that each micro-batch added to, over their replicas
  int64_t num_buckets = 1;
  double tied_comm_s = 0;    // first and last stage add the gradients of their shared embedding
  double tensor_comm_s = 0;  // gradients of parameters that tensor ranks hold together
  // After it.
  double optimizer_s = 0;
  double other_s = 0;        // clearing gradients, their norm
  double gather_comm_s = 0;  // all-gather of the parameters that each rank updated

  double AfterNorm() const { return optimizer_s + other_s + gather_comm_s; }
};

// The groups over which parameters, or those of experts, are reduced and sharded.
struct ReductionGroups {
  GroupPlacement gradient;  // all ranks that hold them
  GroupPlacement shard;
  GroupPlacement replica;
};
struct ReductionPlacements {
  ReductionGroups dense;
  ReductionGroups expert;
};
ReductionPlacements PlaceReductions(const LayoutGroups& groups, const Network& network);

// Reduces `bytes` of gradients: without sharding an all-reduce, with it a reduce-scatter within the
// shard group, then an all-reduce of the shard over its replicas (hybrid sharding: Zhao et al.
// 2023, arXiv:2304.11277, section 3.2.2), once for all micro-batches.
double ReductionSeconds(double bytes, bool is_sharded, const ReductionGroups& groups,
                        const Network& network);
double ScatterSeconds(double bytes, const ReductionGroups& groups, const Network& network);
double ReplicaReductionSeconds(double bytes, const ReductionGroups& groups, const Network& network);

// ZeRO stage 0 all-reduces gradients and updates every parameter on every rank; from stage 1 on
// they are reduced and scattered, and the rank's share is updated; stages 1 and 2 gather parameters
// in their own type afterwards (Rajbhandari et al. 2020, arXiv:1910.02054), stage 3 as it uses
// them. A host that runs the optimizer gets gradients, updates at the speed of its memory, which
// the devices of a node share, and sends parameters back (Ren et al. 2021, arXiv:2101.06840).
UpdateCost MakeUpdateCost(const JobCosts& costs, const spec::ParallelSpec& parallel,
                          const LayoutGroups& groups, const StageParameterCounts& parameters);

// Seconds by which communication in n equal parts, done one after the other, outlasts `window_s` of
// computing beside it, with one part that nothing can hide: n parts become ready evenly through a
// backward pass, or are needed evenly through a forward pass. max(t, n t - window (n - 1) / n) for
// t a part's time, or t and the `slowdown` of the computing (see overlap.h) if that is more; all of
// it without overlap.
double ExposedPartsSeconds(double comm_s, int64_t num_parts, double window_s, bool overlaps,
                           double slowdown = 0);

}  // namespace tessera::cost_model
