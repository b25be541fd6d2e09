#include "cost_model/step_parts.h"

#include <algorithm>
#include <string>

#include "cost_model/base/check.h"
#include "cost_model/sharded_parameters.h"

namespace tessera::cost_model {
namespace {

// One transfer between neighbouring stages, of `bytes` a rank.
struct TransferCosts {
  double intra_s = 0;
  double inter_s = 0;
  double between_pods_s = 0;
};

TransferCosts CostsOfTransfer(const JobCosts& costs, const spec::ParallelSpec& parallel,
                              const LayoutGroups& groups, double bytes) {
  const Network& network = costs.network();
  // All ranks of a node that belong to the sending stage send at once.
  const int num_senders =
      static_cast<int>(std::clamp<int64_t>(groups.pipeline.stride, 1, network.ranks_on_node));
  double gather_s = 0;
  double sent_bytes = bytes;
  if (parallel.scatter_gather_transfers && !parallel.sequence_parallel &&
      parallel.tensor_parallel_size > 1) {
    // All tensor ranks hold the same tensor: each sends its part, the receivers gather.
    sent_bytes /= parallel.tensor_parallel_size;
    gather_s = AllGatherSeconds(
        bytes, PlaceGroup(groups.tensor, network.world_size, network.cluster), network);
  }
  TransferCosts transfer;
  transfer.intra_s = IntraNodeTransferSeconds(sent_bytes, network) + gather_s;
  transfer.inter_s = InterNodeTransferSeconds(sent_bytes, num_senders, network) + gather_s;
  transfer.between_pods_s =
      InterNodeTransferSeconds(sent_bytes, num_senders, network, true) + gather_s;
  return transfer;
}

std::vector<double> TransferSeconds(const JobCosts& costs, const spec::ParallelSpec& parallel,
                                    const LayoutGroups& groups, double bytes) {
  const Network& network = costs.network();
  const RankGroup& pipeline = groups.pipeline;
  const int num_stages = parallel.pipeline_parallel_size;
  const int num_virtual_stages = num_stages * parallel.virtual_pipeline_size;
  if (num_stages == 1) return std::vector<double>(num_virtual_stages - 1, 0);
  const TransferCosts transfer = CostsOfTransfer(costs, parallel, groups, bytes);
  // The last stage sends to the first one, between chunks: the way across the whole pipeline.
  const auto crosses = [&](int stage, int64_t block) {
    if (stage == num_stages - 1) {
      return network.world_size > block && block % (pipeline.size * pipeline.stride) != 0;
    }
    return CrossesBlocks(pipeline, stage, network.world_size, block);
  };
  std::vector<double> transfer_s(num_virtual_stages - 1);
  for (int i = 0; i + 1 < num_virtual_stages; ++i) {
    const int stage = i % num_stages;
    const bool is_inter = crosses(stage, network.ranks_on_node);
    const bool is_between_pods =
        is_inter && network.ranks_on_pod > 0 && crosses(stage, network.ranks_on_pod);
    transfer_s[i] = is_between_pods ? transfer.between_pods_s
                    : is_inter      ? transfer.inter_s
                                    : transfer.intra_s;
  }
  return transfer_s;
}

// Of pipeline stage `stage`, which comes after those like it.
bool HasLayersOfTheOneBefore(const StepParts& parts, int num_stages, int stage) {
  for (size_t i = stage; i < parts.forms.size(); i += num_stages) {
    if (parts.forms[i] != parts.forms[i - 1]) return false;
  }
  return true;
}

// Whether a virtual stage computes what the one before it does.
bool IsLikeTheOneBefore(const StepParts& parts, size_t i) {
  return i > 1 && !parts.stages[i].has_head && parts.forms[i] == parts.forms[i - 1] &&
         (parts.recomputed.empty() || parts.recomputed[i] == parts.recomputed[i - 1]);
}

std::vector<BlockCost> CostsOfStages(JobCosts& costs, const spec::ParallelSpec& parallel,
                                     const StepParts& parts) {
  const BlockCosts& blocks = costs.BlocksOf(parallel);
  const bool keeps_some = !parts.recomputed.empty();
  const BlockCosts& kept = keeps_some ? costs.BlocksOf(parallel, spec::Recompute::kNone) : blocks;
  std::vector<BlockCost> stage_costs(parts.stages.size());
  for (size_t i = 0; i < parts.stages.size(); ++i) {
    if (IsLikeTheOneBefore(parts, i)) {
      stage_costs[i] = stage_costs[i - 1];
    } else if (keeps_some) {
      // Of the layers priced as recomputed, those after the first few of each stage are not.
      stage_costs[i] =
          StageCost(blocks, parts.recomputed[i], kept, KeptForms(parts, i), parts.stages[i]);
    } else {
      stage_costs[i] = StageCost(blocks, parts.forms[i], parts.stages[i]);
    }
  }
  return stage_costs;
}

}  // namespace

StepParts MakeStepLayers(const Job& job, const spec::ParallelSpec& parallel) {
  StepParts parts;
  parts.num_microbatches = spec::NumMicrobatches(job.training, parallel);
  parts.stages = spec::PartitionStages(job.model, parallel);
  parts.forms.reserve(parts.stages.size());
  for (const spec::VirtualStage& stage : parts.stages) {
    parts.forms.push_back(spec::CountForms(job.model, stage));
  }
  const std::vector<int>& recomputed = parallel.recomputed_layers_per_virtual_stage;
  if (recomputed.empty()) return parts;
  parts.recomputed.reserve(parts.stages.size());
  for (size_t i = 0; i < parts.stages.size(); ++i) {
    spec::VirtualStage first_layers = parts.stages[i];
    first_layers.num_layers = std::min(first_layers.num_layers, recomputed[i]);
    parts.recomputed.push_back(spec::CountForms(job.model, first_layers));
  }
  return parts;
}

StepParts MakeStepParts(JobCosts& costs, const spec::ParallelSpec& parallel) {
  const Job& job = costs.job();
  const MicrobatchCost& microbatch = costs.MicrobatchOf(parallel);
  StepParts parts = MakeStepLayers(job, parallel);
  parts.groups = MakeLayoutGroups(parallel);
  parts.costs = CostsOfStages(costs, parallel, parts);
  parts.transfer_s = TransferSeconds(costs, parallel, parts.groups, microbatch.transfer_bytes);
  SetUpdates(costs, parallel, parts);
  AddShardingCosts(costs, parallel, parts);
  return parts;
}

void SetUpdates(JobCosts& costs, const spec::ParallelSpec& parallel, StepParts& parts) {
  const ParameterCounts& counts = costs.ParametersOf(parallel);
  const int num_stages = parallel.pipeline_parallel_size;
  parts.updates.resize(num_stages);
  for (int stage = 0; stage < num_stages; ++stage) {
    const bool has_head = stage == num_stages - 1;
    // Most stages are like the one before.
    if (stage > 1 && !has_head && HasLayersOfTheOneBefore(parts, num_stages, stage)) {
      parts.updates[stage] = parts.updates[stage - 1];
      continue;
    }
    const StageParameterCounts parameters = CountParameters(
        counts, PipelineStageForms(parts, parallel, stage), /*has_embedding=*/stage == 0, has_head);
    parts.updates[stage] = MakeUpdateCost(costs, parallel, parts.groups, parameters);
  }
}

spec::PerForm<int> PipelineStageForms(const StepParts& parts, const spec::ParallelSpec& parallel,
                                      int stage) {
  spec::PerForm<int> sum = {};
  for (size_t i = stage; i < parts.forms.size(); i += parallel.pipeline_parallel_size) {
    for (size_t form = 0; form < sum.size(); ++form) sum[form] += parts.forms[i][form];
  }
  return sum;
}

BlockCost PipelineStageCost(const StepParts& parts, const spec::ParallelSpec& parallel, int stage) {
  BlockCost cost;
  for (size_t i = stage; i < parts.costs.size(); i += parallel.pipeline_parallel_size) {
    cost.Add(parts.costs[i]);
  }
  return cost;
}

spec::PerForm<int> KeptForms(const StepParts& parts, size_t virtual_stage) {
  spec::PerForm<int> kept = parts.forms[virtual_stage];
  for (size_t form = 0; form < spec::kNumLayerForms; ++form) {
    kept[form] -= parts.recomputed[virtual_stage][form];
  }
  return kept;
}

bool OverlapsReduction(const JobCosts& costs, const spec::ParallelSpec& parallel) {
  return parallel.overlap_grad_reduce && costs.job().cluster.shared_compute_units == 0;
}

std::vector<spec::Violation> FindUnpriced(const Job& job, const spec::ParallelSpec& parallel) {
  std::vector<spec::Violation> violations;
  const spec::HostSpec& host = job.cluster.host;
  const bool host_is_known =
      host.device_link_bandwidth_bytes_per_s > 0 && host.memory_bandwidth_bytes_per_s > 0;
  if (parallel.offload_optimizer && !host_is_known) {
    violations.push_back({.constraint = "optimizer offload",
                          .message = base::Concat("cluster ", job.cluster.name,
                                                  " does not say how fast its hosts are (host), "
                                                  "which an optimizer on the host needs"),
                          .needed = 1,
                          .available = 0,
                          .unit = ""});
  }
  return violations;
}

}  // namespace tessera::cost_model
