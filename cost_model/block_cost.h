// Seconds of one micro-batch through the parts a stage is made of: a layer, the embedding, the
// head. Layers of one form cost the same, so a stage is a few multiplications.
#pragma once

#include "cost_model/collective_cost.h"
#include "cost_model/rank_device.h"
#include "cost_model/spec/layer_form.h"
#include "cost_model/spec/op_list.h"
#include "cost_model/spec/stage_partition.h"

namespace tessera::cost_model {

// Collectives by the axis they run over.
struct AxisSeconds {
  double tensor_s = 0;  // expert-tensor groups too
  double context_s = 0;
  double expert_s = 0;
  double data_s = 0;  // of parameters sharded over data ranks

  double Total() const { return tensor_s + context_s + expert_s + data_s; }
  void Add(const AxisSeconds& other, double times = 1);
};

struct BlockCost {
  double forward_s = 0;
  AxisSeconds forward_comm;
  double backward_s = 0;  // recomputation apart
  // Of backward_s: products that give a layer's weight gradients, which zb-h1 runs as passes of
  // their own. The head's run with its inputs' gradients, so that no logits wait for them.
  double backward_weight_s = 0;
  AxisSeconds backward_comm;
  double recompute_s = 0;
  AxisSeconds recompute_comm;
  // The host's time to launch all that a pass runs, recomputation and collectives included.
  double forward_host_s = 0;
  double backward_host_s = 0;
  // Matrix products and attention run again, on this rank. [FLOPs]
  double recompute_flops = 0;

  double Forward() const { return forward_s + forward_comm.Total(); }
  double Backward() const {
    return backward_s + backward_comm.Total() + recompute_s + recompute_comm.Total();
  }
  AxisSeconds Communication() const;
  void Add(const BlockCost& other, double times = 1);
  // A pass takes no less than its launches: where the host is slower the device waits, which
  // counts as computing.
  void WaitForHost();
};

struct BlockCosts {
  spec::PerForm<BlockCost> layers;  // zero where the model has no layer of the form
  BlockCost embedding;
  BlockCost head;
};

// Prices the op list of each part; collectives are exposed. `convention` says how recomputed
// attention counts.
BlockCosts MakeBlockCosts(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                          const spec::ParallelSpec& parallel, const RankDevice& device,
                          const Network& network, spec::FlopsConvention convention);

// One virtual stage with so many layers of each form.
BlockCost StageCost(const BlockCosts& blocks, const spec::PerForm<int>& num_layers,
                    const spec::VirtualStage& stage);
// The same with further layers, priced by `kept`, that are not recomputed.
BlockCost StageCost(const BlockCosts& blocks, const spec::PerForm<int>& num_layers,
                    const BlockCosts& kept, const spec::PerForm<int>& num_kept,
                    const spec::VirtualStage& stage);

}  // namespace tessera::cost_model
