#include "cost_model/block_cost.h"

#include "cost_model/op_cost.h"

namespace tessera::cost_model {
namespace {

// Attention counts by the convention, whatever part of it the kernel skips.
double ConventionFlops(const base::OpRecord& record, spec::FlopsConvention convention) {
  if (record.kind != base::OpKind::kAttentionForward) return spec::FlopsOf(record);
  base::OpRecord unfused = record;
  unfused.dims[5] = static_cast<int64_t>(base::AttentionStats::kProbabilities);
  const double full = spec::FlopsOf(unfused);
  return convention == spec::FlopsConvention::kCausal ? full / 2 : full;
}

// Prices operations into the fields of one block.
class Pricer {
 public:
  Pricer(const RankDevice& device, const Network& network, const GroupPlacement& tensor_group,
         spec::FlopsConvention convention)
      : device_(device), network_(network), tensor_group_(tensor_group), convention_(convention) {}

  void Forward(const std::vector<spec::Op>& ops, BlockCost& cost) const {
    for (const spec::Op& op : ops) {
      if (base::IsCommunication(op.record.kind)) {
        cost.forward_comm_s += Communication(op.record);
      } else {
        cost.forward_s += OpSeconds(op.record, device_);
      }
    }
  }

  void Backward(const std::vector<spec::Op>& ops, BlockCost& cost) const {
    for (const spec::Op& op : ops) {
      if (base::IsCommunication(op.record.kind)) {
        cost.backward_comm_s += Communication(op.record);
      } else if (op.recomputed) {
        cost.recompute_s += OpSeconds(op.record, device_);
        cost.recompute_flops += ConventionFlops(op.record, convention_);
      } else {
        cost.backward_s += OpSeconds(op.record, device_);
      }
    }
  }

 private:
  double Communication(const base::OpRecord& record) const {
    return CollectiveSeconds(record, static_cast<double>(device_.element_bytes), tensor_group_,
                             network_);
  }

  const RankDevice& device_;
  const Network& network_;
  const GroupPlacement& tensor_group_;
  const spec::FlopsConvention convention_;
};

}  // namespace

void BlockCost::Add(const BlockCost& other, double times) {
  forward_s += times * other.forward_s;
  forward_comm_s += times * other.forward_comm_s;
  backward_s += times * other.backward_s;
  backward_comm_s += times * other.backward_comm_s;
  recompute_s += times * other.recompute_s;
  recompute_flops += times * other.recompute_flops;
}

BlockCosts MakeBlockCosts(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                          const spec::ParallelSpec& parallel, const RankDevice& device,
                          const Network& network, spec::FlopsConvention convention) {
  const spec::LocalShape shape = spec::MakeLocalShape(model, training, parallel);
  const GroupPlacement tensor_group =
      PlaceGroup(MakeLayoutGroups(parallel).tensor, network.world_size, network.cluster);
  const Pricer pricer(device, network, tensor_group, convention);
  BlockCosts costs;
  const auto price = [&](auto append_forward, auto append_backward, BlockCost& cost) {
    std::vector<spec::Op> forward, backward;
    append_forward(model, parallel, shape, forward);
    append_backward(model, parallel, shape, backward);
    pricer.Forward(forward, cost);
    pricer.Backward(backward, cost);
  };
  price(spec::AppendLayerForward, spec::AppendLayerBackward, costs.layer);
  price(spec::AppendEmbeddingForward, spec::AppendEmbeddingBackward, costs.embedding);
  price(spec::AppendHeadForward, spec::AppendHeadBackward, costs.head);
  return costs;
}

BlockCost StageCost(const BlockCosts& blocks, const spec::VirtualStage& stage) {
  BlockCost cost;
  cost.Add(blocks.layer, stage.num_layers);
  if (stage.has_embedding) cost.Add(blocks.embedding);
  if (stage.has_head) cost.Add(blocks.head);
  return cost;
}

}  // namespace tessera::cost_model
