#include "cost_model/spec/step_warnings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"
#include "cost_model/spec/efficiency.h"
#include "cost_model/spec/op_list.h"
#include "cost_model/spec/rank_layout.h"

namespace tessera::spec {
namespace {

using base::Concat;

// Output tiles of which a compute unit works on one at a time; with smaller ones a product reads
// its operands more often (NVIDIA, "Matrix Multiplication Background User's Guide", section 4).
constexpr int64_t kProductTile = 128;

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f %%", 100 * share);
  return text;
}

std::string OneDecimal(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

class Finder {
 public:
  Finder(const ModelSpec& model, const ClusterSpec& cluster, const TrainingSpec& training,
         const ParallelSpec& parallel, const StepReport& report)
      : model_(model),
        cluster_(cluster),
        training_(training),
        parallel_(parallel),
        report_(report) {}

  std::vector<StepWarning> Find() {
    TensorAcrossNodes();
    UnevenMemory();
    SmallShapes();
    ExposedCommunication();
    Bubble();
    return std::move(warnings_);
  }

 private:
  void Warn(WarningKind kind, double share, std::string what, std::string remedy) {
    warnings_.push_back({kind, std::move(what), std::move(remedy), share});
  }

  void TensorAcrossNodes() {
    if (cluster_.shared_compute_units > 0 || parallel_.tensor_parallel_size == 1) return;
    const int domain = DevicesPerDomain(cluster_);
    const RankLayout layout(parallel_);
    int most_nodes = 1;
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const std::vector<int> group = layout.GroupOf(rank, Axis::kTensor);
      if (group.front() != rank) continue;
      std::vector<int> nodes;
      for (const int member : group) nodes.push_back(member / domain);
      std::sort(nodes.begin(), nodes.end());
      nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
      most_nodes = std::max(most_nodes, static_cast<int>(nodes.size()));
    }
    if (most_nodes == 1) return;
    const double slower = cluster_.intra_node.bandwidth_bytes_per_s /
                          std::max(1.0, cluster_.inter_node.bandwidth_bytes_per_s);
    Warn(WarningKind::kTensorAcrossNodes, most_nodes,
         Concat("tensor-parallel groups of ", parallel_.tensor_parallel_size, " reach over ",
                most_nodes, " nodes, whose links are ", OneDecimal(slower),
                " times slower than those within, and every layer waits for them"),
         Concat("take a tensor-parallel size that divides the ", domain,
                " devices of a node, and pipeline stages or data ranks between nodes"));
  }

  void UnevenMemory() {
    if (report_.stages.size() < 2) return;
    const auto [leanest, fullest] = std::minmax_element(
        report_.stages.begin(), report_.stages.end(),
        [](const StageMemory& a, const StageMemory& b) { return a.Total() < b.Total(); });
    const auto most = static_cast<double>(fullest->Total());
    const double ratio = most / std::max(1.0, static_cast<double>(leanest->Total()));
    // A pool's memory is there for all ranks: whose it is does not matter.
    const auto capacity = static_cast<double>(cluster_.device.memory_bytes);
    if (cluster_.shared_compute_units > 0 || ratio < kUnevenMemoryRatio ||
        most < kCrowdedShare * capacity) {
      return;
    }
    const auto stage = fullest - report_.stages.begin();
    const bool holds_activations = fullest->activations_bytes > fullest->Total() / 2;
    Warn(WarningKind::kUnevenMemory, ratio,
         Concat("stage ", stage, " holds ", OneDecimal(ratio), " times the memory of stage ",
                leanest - report_.stages.begin(), " and ", Percent(most / capacity),
                " of its device's"),
         holds_activations
             ? Concat("recompute layers of stage ", stage,
                      " (recomputed_layers_per_virtual_stage), or give it fewer "
                      "(layers_per_virtual_stage)")
             : Concat("give stage ", stage, " fewer layers (layers_per_virtual_stage)"));
  }

  // The product of a layer that computes most.
  std::optional<base::OpRecord> LargestProduct() const {
    std::optional<base::OpRecord> largest;
    for (const VirtualStage& stage : PartitionStages(model_, parallel_)) {
      VirtualStage layers = stage;  // without the head, which is as wide as the vocabulary
      layers.has_embedding = layers.has_head = false;
      for (const Op& op : StageForwardOps(model_, training_, parallel_, layers)) {
        const bool is_product = op.record.kind == base::OpKind::kMatMul ||
                                op.record.kind == base::OpKind::kGroupedMatMul;
        if (is_product && (!largest || FlopsOf(op.record) > FlopsOf(*largest))) {
          largest = op.record;
        }
      }
      if (largest) break;
    }
    return largest;
  }

  // Of what large products reach.
  double ShareOf(const base::OpRecord& product) const {
    const bool is_grouped = product.kind == base::OpKind::kGroupedMatMul;
    const int64_t groups = is_grouped ? product.dims[6] : 1;
    const int64_t rows = base::CeilDiv(product.dims[0], groups);
    if (cluster_.device.kernels) {
      const auto tiles = static_cast<double>(base::CeilDiv(rows, kProductTile) *
                                             base::CeilDiv(product.dims[1], kProductTile) * groups);
      return std::min(1.0, tiles / cluster_.device.kernels->num_compute_units);
    }
    const EfficiencyTable& table = cluster_.device.matmul_efficiency;
    double best = 0;
    for (const EfficiencyPoint& point : table) best = std::max(best, point.efficiency);
    if (best == 0) return 1;
    return EfficiencyAt(table, FlopsOf(product) / static_cast<double>(groups)) / best;
  }

  void SmallShapes() {
    if (report_.mfu <= 0 || report_.mfu >= kLowUtilisation) return;
    const std::optional<base::OpRecord> product = LargestProduct();
    if (!product) return;
    const double share = ShareOf(*product);
    if (share >= kSmallProductShare) return;
    std::string remedy = "a larger micro-batch";
    if (parallel_.tensor_parallel_size > 1) remedy += ", fewer tensor-parallel ranks";
    if (parallel_.context_parallel_size > 1) remedy += ", fewer context-parallel ranks";
    if (product->kind == base::OpKind::kGroupedMatMul) remedy += ", fewer experts on a rank";
    Warn(WarningKind::kSmallShapes, share,
         Concat("the largest product of a layer, ", product->dims[0], " x ", product->dims[1],
                " x ", product->dims[2], ", is too small for the device, ", Percent(share),
                " of what large ones reach, and the step reaches ", Percent(report_.mfu),
                " of the peak"),
         remedy);
  }

  void ExposedCommunication() {
    struct Term {
      const char* name;
      double seconds;
      const char* remedy;
    };
    const TimeBreakdown& time = report_.time;
    const Term terms[] = {
        {"tensor-parallel", time.tp_comm_s,
         parallel_.overlap_tp_comm
             ? "fewer tensor-parallel ranks, or a larger hidden size for as many"
             : "overlap it (overlap_tp_comm), or take fewer tensor-parallel ranks"},
        {"context-parallel", time.cp_comm_s,
         "fewer context-parallel ranks, or another way "
         "(context_kind)"},
        {"expert-parallel", time.ep_comm_s,
         "expert-parallel ranks within a node, or fewer of them"},
        {"data-parallel", time.dp_comm_s,
         parallel_.overlap_grad_reduce
             ? "a larger global batch, so that each reduction serves more micro-batches"
             : "overlap it (overlap_grad_reduce), or take a larger global batch"},
        {"pipeline", time.pp_comm_s, "overlap it (overlap_pp_comm), or take fewer stages"},
    };
    double total_s = 0;
    for (const Term& term : terms) total_s += term.seconds;
    const double share = total_s / report_.step_time_s;
    if (share < kExposedCommunicationShare) return;
    const Term& largest =
        *std::max_element(std::begin(terms), std::end(terms),
                          [](const Term& a, const Term& b) { return a.seconds < b.seconds; });
    Warn(WarningKind::kExposedCommunication, share,
         Concat("communication that nothing hides takes ", Percent(share), " of the step, ",
                largest.name, " most of it (", Percent(largest.seconds / report_.step_time_s), ")"),
         largest.remedy);
  }

  void Bubble() {
    const double share = report_.time.bubble_s / report_.step_time_s;
    if (parallel_.pipeline_parallel_size == 1 || share < kBubbleShare) return;
    const int64_t num_microbatches = NumMicrobatches(training_, parallel_);
    std::string remedy = "more micro-batches (a smaller micro-batch or a larger global batch)";
    if (parallel_.schedule != ScheduleKind::kInterleaved) {
      remedy += ", the interleaved schedule";
    } else {
      remedy += ", more chunks";
    }
    if (parallel_.schedule != ScheduleKind::kZeroBubbleH1) remedy += " or zb-h1";
    Warn(WarningKind::kBubble, share,
         Concat("stages wait for each other ", Percent(share), " of the step: ", num_microbatches,
                " micro-batch", num_microbatches == 1 ? "" : "es", " for ",
                parallel_.pipeline_parallel_size, " stages"),
         remedy + ", or fewer stages");
  }

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  const TrainingSpec& training_;
  const ParallelSpec& parallel_;
  const StepReport& report_;
  std::vector<StepWarning> warnings_;
};

}  // namespace

std::string_view ToString(WarningKind kind) {
  switch (kind) {
    case WarningKind::kTensorAcrossNodes:
      return "tensor_across_nodes";
    case WarningKind::kUnevenMemory:
      return "uneven_memory";
    case WarningKind::kSmallShapes:
      return "small_shapes";
    case WarningKind::kExposedCommunication:
      return "exposed_communication";
    case WarningKind::kBubble:
      return "bubble";
    case WarningKind::kStraggler:
      return "straggler";
  }
  base::FailCheck(__FILE__, __LINE__, "known warning", static_cast<int>(kind));
}

std::string ToString(const StepWarning& warning) {
  return Concat(warning.what, "; to change it: ", warning.remedy);
}

std::vector<StepWarning> FindStepWarnings(const ModelSpec& model, const ClusterSpec& cluster,
                                          const TrainingSpec& training,
                                          const ParallelSpec& parallel, const StepReport& report) {
  return Finder(model, cluster, training, parallel, report).Find();
}

}  // namespace tessera::spec
