#include "cost_model/block_cost.h"

#include <algorithm>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/op_cost.h"
#include "cost_model/overlap.h"
#include "cost_model/spec/alternate_products.h"
#include "cost_model/tensor_overlap.h"

namespace tessera::cost_model {
namespace {

// Where the groups of each axis that an op list may name sit.
struct AxisPlacements {
  GroupPlacement tensor;
  GroupPlacement context;
  GroupPlacement expert;
  GroupPlacement expert_tensor;
};

AxisPlacements PlaceAxes(const spec::ParallelSpec& parallel, const Network& network) {
  const LayoutGroups groups = MakeLayoutGroups(parallel);
  const auto place = [&](const RankGroup& group) {
    return PlaceGroup(group, network.world_size, network.cluster);
  };
  return {.tensor = place(groups.tensor),
          .context = place(groups.context),
          .expert = place(groups.expert),
          .expert_tensor = place(groups.expert_tensor)};
}

spec::Axis AxisOf(const base::OpRecord& record) {
  return static_cast<spec::Axis>(record.dims[record.kind == base::OpKind::kBarrier ? 1 : 2]);
}

// Prices operations into the fields of one block.
class Pricer {
 public:
  Pricer(const RankDevice& device, const Network& network, const AxisPlacements& placements,
         const TensorOverlap& overlap, spec::FlopsConvention convention)
      : device_(device),
        network_(network),
        placements_(placements),
        overlap_(overlap),
        convention_(convention) {}

  void Forward(const std::vector<spec::Op>& ops, BlockCost& cost) const {
    const PricedOps priced = Price(ops);
    cost.forward_s += priced.idle_s;
    for (size_t i = 0; i < ops.size(); ++i) {
      cost.forward_host_s += priced.host_s[i];
      if (base::IsCommunication(ops[i].record.kind)) {
        FieldOf(ops[i].record, cost.forward_comm) += priced.device_s[i];
      } else {
        cost.forward_s += priced.device_s[i];
      }
    }
  }

  void Backward(const std::vector<spec::Op>& ops, BlockCost& cost) const {
    const PricedOps priced = Price(ops);
    cost.backward_s += priced.idle_s;
    for (size_t i = 0; i < ops.size(); ++i) {
      const spec::Op& op = ops[i];
      const double seconds = priced.device_s[i];
      cost.backward_host_s += priced.host_s[i];
      if (base::IsCommunication(op.record.kind)) {
        FieldOf(op.record, op.recomputed ? cost.recompute_comm : cost.backward_comm) += seconds;
      } else if (op.recomputed) {
        cost.recompute_s += seconds;
        cost.recompute_flops += spec::ConventionFlopsOf(op.record, convention_);
      } else {
        cost.backward_s += seconds;
        if (spec::IsWeightGradient(op)) cost.backward_weight_s += seconds;
      }
    }
  }

 private:
  // By operation. Of tensor-parallel communication what the products beside it do not hide.
  struct PricedOps {
    std::vector<double> device_s;
    std::vector<double> host_s;
    double idle_s = 0;  // that the device waits for the host; host_s is then zero
  };

  PricedOps Price(const std::vector<spec::Op>& ops) const {
    PricedOps priced;
    for (const spec::Op& op : ops) {
      if (base::IsCommunication(op.record.kind)) {
        priced.device_s.push_back(CommunicationSeconds(op.record));
        // A receive is posted and over with its send.
        const bool is_alone = op.record.kind != base::OpKind::kRecv;
        priced.host_s.push_back(is_alone ? device_.host_s_per_collective : 0);
      } else {
        const KernelTime time = OpTime(op.record, device_);
        priced.device_s.push_back(time.device_s);
        priced.host_s.push_back(time.num_kernels * device_.host_s_per_kernel);
      }
    }
    HideRingTransfers(ops, priced.device_s);
    HideTensorCommunication(ops, overlap_, priced.device_s);
    if (device_.runtime.layers_start_idle) StartIdle(ops, priced);
    return priced;
  }

  // Host and device start together: the pass ends as late as some operation, launched as soon as
  // the host gets there, and those after it take on the device.
  static void StartIdle(const std::vector<spec::Op>& ops, PricedOps& priced) {
    double device_s = 0;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (!base::IsCommunication(ops[i].record.kind)) device_s += priced.device_s[i];
    }
    double end_s = device_s;
    double host_s = 0;
    double left_s = device_s;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (base::IsCommunication(ops[i].record.kind)) continue;
      host_s += priced.host_s[i];
      end_s = std::max(end_s, host_s + left_s);
      left_s -= priced.device_s[i];
    }
    priced.idle_s = end_s - device_s;
    priced.host_s.assign(ops.size(), 0);
  }

  double CommunicationSeconds(const base::OpRecord& record) const {
    const auto element_bytes = static_cast<double>(device_.element_bytes);
    const GroupPlacement& placement = PlacementOf(record);
    if (record.kind == base::OpKind::kRecv) return 0;
    if (record.kind == base::OpKind::kSend) {
      return RingExchangeSeconds(static_cast<double>(record.dims[0] * record.dims[3]), placement,
                                 network_);
    }
    if (AxisOf(record) == spec::Axis::kExpert) return ExpertExchangeSeconds(record);
    return CollectiveSeconds(record, element_bytes, placement, network_);
  }

  // Transfers round the context ring run beside the operation after them.
  void HideRingTransfers(const std::vector<spec::Op>& ops, std::vector<double>& device_s) const {
    double transfers_s = 0;  // of those that wait for an operation
    for (size_t i = 0; i < ops.size(); ++i) {
      const base::OpKind kind = ops[i].record.kind;
      if (kind == base::OpKind::kSend || kind == base::OpKind::kRecv) {
        transfers_s += std::exchange(device_s[i], 0);
      } else if (transfers_s > 0) {
        device_s[i - 1] = ExposedSeconds(std::exchange(transfers_s, 0), device_s[i],
                                         network_.cluster.collectives.overlap_slowdown);
      }
    }
  }

  const GroupPlacement& PlacementOf(const base::OpRecord& record) const {
    switch (AxisOf(record)) {
      case spec::Axis::kTensor:
        return placements_.tensor;
      case spec::Axis::kExpertTensor:
        return placements_.expert_tensor;
      case spec::Axis::kContext:
        return placements_.context;
      case spec::Axis::kExpert:
        return placements_.expert;
      default:
        base::FailCheck(__FILE__, __LINE__, "an axis of layers", base::ToString(record));
    }
  }

  static double& FieldOf(const base::OpRecord& record, AxisSeconds& seconds) {
    switch (AxisOf(record)) {
      case spec::Axis::kContext:
        return seconds.context_s;
      case spec::Axis::kExpert:
        return seconds.expert_s;
      default:
        return seconds.tensor_s;
    }
  }

  double ExpertExchangeSeconds(const base::OpRecord& record) const {
    const double bytes =
        static_cast<double>(record.dims[0]) * static_cast<double>(device_.element_bytes);
    const int64_t num_copies = std::max<int64_t>(1, record.dims[3]);
    const double share = device_.runtime.deduplicated_dispatch
                             ? CopiesShare(num_copies, placements_.expert.num_nodes)
                             : 1.0;
    return AllToAllSeconds(bytes, placements_.expert, network_, share);
  }

  const RankDevice& device_;
  const Network& network_;
  const AxisPlacements& placements_;
  const TensorOverlap& overlap_;
  const spec::FlopsConvention convention_;
};

}  // namespace

void AxisSeconds::Add(const AxisSeconds& other, double times) {
  tensor_s += times * other.tensor_s;
  context_s += times * other.context_s;
  expert_s += times * other.expert_s;
  data_s += times * other.data_s;
}

AxisSeconds BlockCost::Communication() const {
  AxisSeconds sum = forward_comm;
  sum.Add(backward_comm);
  sum.Add(recompute_comm);
  return sum;
}

void BlockCost::Add(const BlockCost& other, double times) {
  forward_s += times * other.forward_s;
  forward_comm.Add(other.forward_comm, times);
  forward_host_s += times * other.forward_host_s;
  backward_host_s += times * other.backward_host_s;
  backward_s += times * other.backward_s;
  backward_weight_s += times * other.backward_weight_s;
  backward_comm.Add(other.backward_comm, times);
  recompute_s += times * other.recompute_s;
  recompute_comm.Add(other.recompute_comm, times);
  recompute_flops += times * other.recompute_flops;
}

void BlockCost::WaitForHost() {
  forward_s += std::max(0.0, forward_host_s - Forward());
  backward_s += std::max(0.0, backward_host_s - Backward());
}

BlockCosts MakeBlockCosts(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                          const spec::ParallelSpec& parallel, const RankDevice& device,
                          const Network& network, spec::FlopsConvention convention) {
  const spec::LocalShape shape = spec::MakeLocalShape(model, training, parallel);
  const AxisPlacements placements = PlaceAxes(parallel, network);
  // The head and its loss stay in the activations' type where layers run in a narrower one.
  const RankDevice wide_device = device.InActivationType();
  const TensorOverlap overlap{
      .in_pieces = parallel.overlap_tp_comm && device.runtime.tensor_comm_in_pieces,
      .slowdown = network.cluster.collectives.overlap_slowdown};
  // What the op list runs beside products of weight gradients; on a pool of cores nothing is
  // hidden.
  spec::ParallelSpec written = parallel;
  written.overlap_tp_comm = network.cluster.shared_compute_units == 0 &&
                            (device.runtime.tensor_comm_beside_weight_gradients ||
                             (parallel.overlap_tp_comm && !device.runtime.tensor_comm_in_pieces));
  const bool by_products =
      device.runtime.keeps_alternate_products && parallel.recompute == spec::Recompute::kSelective;
  const Pricer layer_pricer(device, network, placements, overlap, convention);
  const Pricer wide_pricer(wide_device, network, placements, overlap, convention);
  BlockCosts costs;
  const auto price = [&](const Pricer& pricer, auto append_forward, auto append_backward,
                         BlockCost& cost) {
    std::vector<spec::Op> forward, backward;
    append_forward(model, written, shape, forward);
    append_backward(model, written, shape, backward);
    pricer.Forward(forward, cost);
    pricer.Backward(backward, cost);
  };
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) {
    const spec::LayerForm form = spec::FormAt(i);
    if (!spec::FirstLayerOf(model, form)) continue;
    const auto with_form = [&](auto append) {
      return [append, &form](const auto& m, const auto& p, const auto& s, auto& ops) {
        append(m, p, form, s, ops);
      };
    };
    price(layer_pricer, with_form(spec::AppendLayerForward),
          with_form(by_products ? spec::AppendLayerBackwardByProducts : spec::AppendLayerBackward),
          costs.layers[i]);
  }
  price(wide_pricer, spec::AppendEmbeddingForward, spec::AppendEmbeddingBackward, costs.embedding);
  price(wide_pricer, spec::AppendHeadForward, spec::AppendHeadBackward, costs.head);
  costs.head.backward_weight_s = 0;  // by definition, see BlockCost
  return costs;
}

BlockCost StageCost(const BlockCosts& blocks, const spec::PerForm<int>& num_layers,
                    const spec::VirtualStage& stage) {
  return StageCost(blocks, num_layers, blocks, {}, stage);
}

BlockCost StageCost(const BlockCosts& blocks, const spec::PerForm<int>& num_layers,
                    const BlockCosts& kept, const spec::PerForm<int>& num_kept,
                    const spec::VirtualStage& stage) {
  BlockCost cost;
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) {
    if (num_layers[i] > 0) cost.Add(blocks.layers[i], num_layers[i]);
    if (num_kept[i] > 0) cost.Add(kept.layers[i], num_kept[i]);
  }
  if (stage.has_embedding) cost.Add(blocks.embedding);
  if (stage.has_head) cost.Add(blocks.head);
  cost.WaitForHost();
  return cost;
}

}  // namespace tessera::cost_model
