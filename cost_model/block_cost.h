// Seconds of one micro-batch through the parts a stage is made of: a layer, the embedding, the
// head. Every layer of a model costs the same, so a stage is a few multiplications.
#pragma once

#include "cost_model/collective_cost.h"
#include "cost_model/rank_device.h"
#include "cost_model/spec/op_list.h"
#include "cost_model/spec/stage_partition.h"

namespace tessera::cost_model {

struct BlockCost {
  double forward_s = 0;
  double forward_comm_s = 0;
  double backward_s = 0;  // recomputation apart
  double backward_comm_s = 0;
  double recompute_s = 0;
  // Matrix products and attention run again, on this rank. [FLOPs]
  double recompute_flops = 0;

  double Forward() const { return forward_s + forward_comm_s; }
  double Backward() const { return backward_s + backward_comm_s + recompute_s; }
  void Add(const BlockCost& other, double times = 1);
};

struct BlockCosts {
  BlockCost layer;
  BlockCost embedding;
  BlockCost head;
};

// Prices the op list of each part; collectives of the tensor axis are exposed. `convention` says
// how recomputed attention counts.
BlockCosts MakeBlockCosts(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                          const spec::ParallelSpec& parallel, const RankDevice& device,
                          const Network& network, spec::FlopsConvention convention);

// One virtual stage.
BlockCost StageCost(const BlockCosts& blocks, const spec::VirtualStage& stage);

}  // namespace tessera::cost_model
