#include "cost_model/sharded_parameters.h"

#include <algorithm>

#include "cost_model/overlap.h"
#include "cost_model/spec/flat_layout.h"

namespace tessera::cost_model {
namespace {

// Seconds to gather and to reduce one part of the model.
struct PartComm {
  double gather_s = 0;
  double reduce_s = 0;
};

struct ModelComm {
  spec::PerForm<PartComm> layers;
  PartComm embedding;
  PartComm head;
};

ModelComm MakeModelComm(JobCosts& costs, const spec::ParallelSpec& parallel,
                        const LayoutGroups& groups) {
  const Network& network = costs.network();
  const spec::TrainingSpec& training = costs.job().training;
  const ReductionPlacements placements = PlaceReductions(groups, network);
  const auto parameter_bytes =
      static_cast<double>(base::SizeBytes(spec::TypesOf(training.precision).parameter));
  const auto gradient_bytes = static_cast<double>(spec::GradientBytes(training, parallel));
  const auto comm_of = [&](const PartParameters& part) {
    PartComm comm;
    const auto add = [&](int64_t elements, const ReductionGroups& on) {
      const auto count = static_cast<double>(elements);
      if (elements == 0) return;
      if (on.shard.size > 1) {
        comm.gather_s += AllGatherSeconds(parameter_bytes * count, on.shard, network);
      }
      comm.reduce_s += ScatterSeconds(gradient_bytes * count, on, network);
    };
    add(part.elements - part.expert_elements, placements.dense);
    add(part.expert_elements, placements.expert);
    return comm;
  };
  const ParameterCounts& counts = costs.ParametersOf(parallel);
  ModelComm comm{.embedding = comm_of(counts.embedding), .head = comm_of(counts.head)};
  for (size_t i = 0; i < spec::kNumLayerForms; ++i) comm.layers[i] = comm_of(counts.layers[i]);
  return comm;
}

// What the passes of one virtual stage wait for.
struct Waits {
  double forward_s = 0;
  double backward_s = 0;
  double tail_s = 0;  // after the backward pass
};

// The layers of a virtual stage, all alike as far as their ends go; in the middle of a pass each
// layer counts as what it is.
class StageWaits {
 public:
  StageWaits(const ModelComm& comm, bool overlaps, double slowdown)
      : comm_(comm), overlaps_(overlaps), slowdown_(slowdown) {}

  // `num_layers` of the layers that `blocks` prices, once for each way of recomputation.
  void AddLayers(const BlockCosts& blocks, const spec::PerForm<int>& num_layers) {
    for (size_t i = 0; i < spec::kNumLayerForms; ++i) {
      if (num_layers[i] == 0) continue;
      const Layer layer{.comm = comm_.layers[i],
                        .forward_s = blocks.layers[i].Forward(),
                        .backward_s = blocks.layers[i].Backward()};
      forward_s_ += num_layers[i] * ForwardWait(layer);
      backward_s_ += num_layers[i] * BackwardWait(layer.comm.gather_s, layer.comm.reduce_s, layer);
      num_layers_ += num_layers[i];
      end_ = layer;
    }
  }

  Waits Finish(const BlockCosts& blocks, const spec::VirtualStage& stage) const {
    const PartComm embedding = stage.has_embedding ? comm_.embedding : PartComm{};
    const PartComm head = stage.has_head ? comm_.head : PartComm{};
    const double embedding_s = stage.has_embedding ? blocks.embedding.Forward() : 0;
    const double head_s = stage.has_head ? blocks.head.Backward() : 0;
    const PartComm& layer = end_.comm;
    Waits waits{.forward_s = embedding.gather_s, .tail_s = embedding.reduce_s};
    if (num_layers_ == 0) {
      waits.forward_s += head.gather_s;
      waits.tail_s += head.reduce_s;
      return waits;
    }
    // The last layer computes while the head arrives, not another layer.
    waits.forward_s += std::max(0.0, layer.gather_s - embedding_s) +
                       std::max(0.0, forward_s_ - ForwardWait(end_)) +
                       std::max(0.0, head.gather_s - end_.forward_s);
    // Backward the first layer finds the head's gradients on the way, the last gathers nothing.
    const double middle_s = BackwardWait(layer.gather_s, layer.reduce_s, end_);
    waits.backward_s = std::max(0.0, layer.gather_s - head_s);
    if (num_layers_ == 1) {
      waits.backward_s += BackwardWait(0, head.reduce_s, end_);
    } else {
      waits.backward_s += BackwardWait(layer.gather_s, head.reduce_s, end_) +
                          std::max(0.0, backward_s_ - 2 * middle_s) +
                          BackwardWait(0, layer.reduce_s, end_);
    }
    waits.tail_s += layer.reduce_s;
    return waits;
  }

 private:
  struct Layer {
    PartComm comm;
    double forward_s = 0;
    double backward_s = 0;
  };

  // Of a layer that computes while another is gathered and a third reduced. Without overlap a
  // reduction holds the pass up.
  double BackwardWait(double gather_s, double reduce_s, const Layer& layer) const {
    return overlaps_ ? ExposedSeconds(gather_s + reduce_s, layer.backward_s, slowdown_)
                     : reduce_s + ExposedSeconds(gather_s, layer.backward_s, slowdown_);
  }
  // For the next layer, as large.
  double ForwardWait(const Layer& layer) const {
    return ExposedSeconds(layer.comm.gather_s, layer.forward_s, slowdown_);
  }

  const ModelComm& comm_;
  const bool overlaps_;
  const double slowdown_;
  double forward_s_ = 0;
  double backward_s_ = 0;
  int num_layers_ = 0;
  Layer end_;
};

void AddParameterWaits(JobCosts& costs, const spec::ParallelSpec& parallel, bool overlaps,
                       StepParts& parts) {
  const ModelComm comm = MakeModelComm(costs, parallel, parts.groups);
  const BlockCosts& blocks = costs.BlocksOf(parallel);
  for (size_t i = 0; i < parts.stages.size(); ++i) {
    StageWaits stage(comm, overlaps, costs.job().cluster.collectives.overlap_slowdown);
    if (parts.recomputed.empty()) {
      stage.AddLayers(blocks, parts.forms[i]);
    } else {
      stage.AddLayers(blocks, parts.recomputed[i]);
      stage.AddLayers(costs.BlocksOf(parallel, spec::Recompute::kNone), KeptForms(parts, i));
    }
    const Waits waits = stage.Finish(blocks, parts.stages[i]);
    parts.costs[i].forward_comm.data_s += waits.forward_s;
    parts.costs[i].backward_comm.data_s += waits.backward_s;
    UpdateCost& update = parts.updates[parts.stages[i].pipeline_stage];
    update.gradient_comm_s = std::max(update.gradient_comm_s, waits.tail_s);
    update.num_buckets = 1;
  }
}

}  // namespace

void AddShardingCosts(JobCosts& costs, const spec::ParallelSpec& parallel, StepParts& parts) {
  if (!spec::ReducesEachMicrobatch(parallel) || spec::GradientGroupSize(parallel) == 1) return;
  const bool overlaps = OverlapsReduction(costs, parallel);
  if (parallel.zero_stage == 3) {
    AddParameterWaits(costs, parallel, overlaps, parts);
    return;
  }
  // One pipeline stage; the last micro-batch's reduction is the stage's own.
  if (parts.num_microbatches == 1) return;
  BlockCost& cost = parts.costs.front();
  const UpdateCost& update = parts.updates.front();
  const double exposed_s =
      ExposedPartsSeconds(update.gradient_comm_s, update.num_buckets, cost.Backward(), overlaps,
                          costs.job().cluster.collectives.overlap_slowdown);
  const auto num_microbatches = static_cast<double>(parts.num_microbatches);
  cost.backward_comm.data_s += exposed_s * (num_microbatches - 1) / num_microbatches;
}

}  // namespace tessera::cost_model
