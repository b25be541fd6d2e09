#include "planner/search_space.h"

#include <algorithm>

#include "cost_model/spec/stage_partition.h"
#include "planner/stage_partitions.h"

namespace tessera::planner {
namespace {

using spec::ScheduleKind;

template <typename T>
std::vector<T> PinnedOr(const std::optional<T>& pin, std::vector<T> otherwise) {
  if (pin) return {*pin};
  return otherwise;
}

// Larger micro-batches than this save nothing more and only cost memory.
constexpr int64_t kMaxMicroBatchSize = 256;

std::vector<int64_t> MicroBatchSizes(const Request& request, int dp) {
  if (request.pins.micro_batch_size) return {*request.pins.micro_batch_size};
  const int64_t batch = request.job.training.global_batch_size;
  if (batch % dp != 0) return {1};  // stands for all of them: none divides
  std::vector<int64_t> sizes = DivisorsOf(batch / dp);
  std::erase_if(sizes, [](int64_t size) { return size > kMaxMicroBatchSize; });
  return sizes;
}

// On a pool of cores communication takes cores from the passes.
bool HidesCommunication(const Request& request) {
  return request.job.cluster.shared_compute_units == 0;
}

// GPipe holds every micro-batch and is no faster: only where it is pinned.
std::vector<Chunking> Chunkings(const Request& request, int pp) {
  const PinnedAxes& pins = request.pins;
  if (pins.virtual_pipeline_size) {
    const int chunks = *pins.virtual_pipeline_size;
    const ScheduleKind otherwise =
        chunks > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneForwardOneBackward;
    return {{pins.schedule.value_or(otherwise), chunks}};
  }
  if (pins.schedule && pins.schedule != ScheduleKind::kInterleaved) return {{*pins.schedule, 1}};
  std::vector<Chunking> chunkings;
  if (!pins.schedule) {
    chunkings.push_back({ScheduleKind::kOneForwardOneBackward, 1});
    if (pp > 1) chunkings.push_back({ScheduleKind::kZeroBubbleH1, 1});
  }
  // Chunks per stage that change the layers of a chunk.
  const int layers_per_stage = request.job.model.num_layers / pp;
  int last = 1;
  for (int layers = layers_per_stage; pp > 1 && layers >= 1; --layers) {
    const int chunks = layers_per_stage / layers;
    if (chunks > last) chunkings.push_back({ScheduleKind::kInterleaved, chunks});
    last = std::max(last, chunks);
  }
  // A pinned interleaved schedule without room for chunks: let the rules say so.
  if (chunkings.empty()) chunkings.push_back({ScheduleKind::kInterleaved, 2});
  return chunkings;
}

std::vector<RecomputeChoice> Recomputes(const Request& request) {
  using enum RecomputeChoice;
  if (request.pins.num_recomputed_layers) return {kFull};
  if (request.pins.recompute) {
    switch (*request.pins.recompute) {
      case spec::Recompute::kNone:
        return {kNone};
      case spec::Recompute::kSelective:
        return {kSelective};
      case spec::Recompute::kFull:
        return {kFull};
    }
  }
  // Flash attention keeps no probabilities that selective recomputation could spare, unless it
  // spares more than those.
  if (request.fixed.attention == spec::AttentionKind::kFlash &&
      !request.job.runtime.keeps_alternate_products) {
    return {kNone, kSome, kFull};
  }
  return {kNone, kSelective, kSome, kFull};
}

int RemainingDevices(const Request& request, int tp, int pp, int cp) {
  if (request.pins.data_parallel_size) return *request.pins.data_parallel_size;
  const int64_t per_replica =
      static_cast<int64_t>(std::max(1, tp)) * std::max(1, pp) * std::max(1, cp);
  return static_cast<int>(std::max<int64_t>(1, request.job.num_devices / per_replica));
}

std::vector<int> ContextSizes(const Request& request, int64_t ranks) {
  if (request.pins.context_parallel_size) return {*request.pins.context_parallel_size};
  std::vector<int> sizes;
  for (const int64_t size : DivisorsOf(ranks)) {
    const bool is_long = request.job.training.sequence_length / size >= kLeastContextTokens;
    if (size == 1 || is_long) sizes.push_back(static_cast<int>(size));
  }
  return sizes;
}

// Appends the mesh for every expert-parallel form of it.
void AppendExpertForms(const Request& request, spec::ParallelSpec mesh,
                       std::vector<spec::ParallelSpec>& meshes) {
  const PinnedAxes& pins = request.pins;
  const auto& moe = request.job.model.moe;
  std::vector<int> expert_sizes = {request.fixed.expert_parallel_size};
  std::vector<int> expert_tensor_sizes = {request.fixed.expert_tensor_parallel_size};
  if (moe && moe->num_experts > 0) {
    const int64_t ranks = static_cast<int64_t>(std::max(1, mesh.tensor_parallel_size)) *
                          std::max(1, mesh.context_parallel_size) *
                          std::max(1, mesh.data_parallel_size);
    expert_sizes.clear();
    for (const int64_t size : DivisorsOf(moe->num_experts)) {
      if (ranks % size == 0) expert_sizes.push_back(static_cast<int>(size));
    }
    if (mesh.tensor_parallel_size > 1) expert_tensor_sizes = {0, 1};
  }
  for (const int ep : PinnedOr<int>(pins.expert_parallel_size, expert_sizes)) {
    for (const int etp : PinnedOr<int>(pins.expert_tensor_parallel_size, expert_tensor_sizes)) {
      mesh.expert_parallel_size = ep;
      mesh.expert_tensor_parallel_size = etp;
      meshes.push_back(mesh);
    }
  }
}

}  // namespace

std::vector<int64_t> DivisorsOf(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d != n) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<spec::ParallelSpec> MeshesOf(const Request& request) {
  const PinnedAxes& pins = request.pins;
  const bool has_dp = pins.data_parallel_size.has_value();
  const int64_t dp = std::max(1, pins.data_parallel_size.value_or(1));
  const int64_t pinned_pp = std::max(1, pins.pipeline_parallel_size.value_or(1));
  std::vector<spec::ParallelSpec> meshes;
  const int64_t pinned = dp * pinned_pp * std::max(1, pins.tensor_parallel_size.value_or(1));
  const int64_t context_ranks = std::max<int64_t>(1, request.job.num_devices / pinned);
  for (const int cp : ContextSizes(request, context_ranks)) {
    const int64_t model_ranks =
        std::max<int64_t>(1, request.job.num_devices / (std::max(1, cp) * dp));
    // The last axis that is left open takes the devices that remain.
    const auto sizes = [](int64_t ranks, bool is_last) {
      if (is_last) return std::vector<int>{static_cast<int>(ranks)};
      const std::vector<int64_t> divisors = DivisorsOf(ranks);
      return std::vector<int>(divisors.begin(), divisors.end());
    };
    const bool tp_is_last = has_dp && pins.pipeline_parallel_size.has_value();
    const int64_t tensor_ranks =
        tp_is_last ? std::max<int64_t>(1, model_ranks / pinned_pp) : model_ranks;
    for (const int tp : PinnedOr<int>(pins.tensor_parallel_size, sizes(tensor_ranks, tp_is_last))) {
      const int64_t stages = std::max<int64_t>(1, model_ranks / std::max(1, tp));
      for (const int pp : PinnedOr<int>(pins.pipeline_parallel_size, sizes(stages, has_dp))) {
        spec::ParallelSpec mesh = request.fixed;
        mesh.layers_per_virtual_stage.clear();
        mesh.tensor_parallel_size = tp;
        mesh.pipeline_parallel_size = pp;
        mesh.context_parallel_size = cp;
        mesh.data_parallel_size = RemainingDevices(request, tp, pp, cp);
        AppendExpertForms(request, std::move(mesh), meshes);
      }
    }
  }
  return meshes;
}

std::vector<Finish> FinishesOf(const Request& request, const spec::ParallelSpec& mesh) {
  const bool shards = mesh.data_parallel_size * mesh.context_parallel_size > 1;
  const auto zero_stages = PinnedOr<int>(
      request.pins.zero_stage, shards ? std::vector<int>{1, 0, 2, 3} : std::vector<int>{1});
  const bool may_overlap = shards && request.target.overlap_param_gather;
  std::vector<Finish> finishes;
  for (const int stage : zero_stages) {
    finishes.push_back({stage, request.fixed.overlap_param_gather});
    const bool gathers = stage == 1 || stage == 2;
    if (may_overlap && gathers && !request.fixed.overlap_param_gather) {
      finishes.push_back({stage, true});
    }
  }
  return finishes;
}

MeshChoices ChoicesOf(const Request& request, const spec::ParallelSpec& mesh) {
  using spec::ContextKind;
  const bool has_tensor_ranks = mesh.tensor_parallel_size > 1;
  MeshChoices choices;
  choices.micro_batch_sizes = MicroBatchSizes(request, std::max(1, mesh.data_parallel_size));
  choices.chunkings = Chunkings(request, std::max(1, mesh.pipeline_parallel_size));
  choices.context_kinds = PinnedOr<ContextKind>(
      request.pins.context_kind,
      mesh.context_parallel_size > 1
          ? std::vector<ContextKind>{ContextKind::kRing, ContextKind::kAllGather,
                                     ContextKind::kAllToAll}
          : std::vector<ContextKind>{request.fixed.context_kind});
  choices.sequence_parallels =
      PinnedOr<bool>(request.pins.sequence_parallel,
                     has_tensor_ranks ? std::vector<bool>{false, true} : std::vector<bool>{false});
  choices.overlap_tp_comms = {request.fixed.overlap_tp_comm};
  if (has_tensor_ranks && request.target.overlap_tp_comm && HidesCommunication(request) &&
      !request.fixed.overlap_tp_comm) {
    // Pieces of collectives may take longer than the whole; whole ones behind products never do.
    if (request.job.runtime.tensor_comm_in_pieces) {
      choices.overlap_tp_comms.push_back(true);
    } else {
      choices.overlap_tp_comms = {true};
    }
  }
  choices.recomputes = Recomputes(request);
  choices.finishes = FinishesOf(request, mesh);
  return choices;
}

void ForEachFamily(const MeshChoices& choices,
                   const std::function<void(const FamilyChoice&)>& visit) {
  FamilyChoice family;
  const auto visit_recomputes = [&](bool overlap_tp_comm) {
    family.overlap_tp_comm = overlap_tp_comm;
    for (const RecomputeChoice recompute : choices.recomputes) {
      family.recompute = recompute;
      visit(family);
    }
  };
  const auto visit_overlaps = [&](bool sequence_parallel) {
    family.sequence_parallel = sequence_parallel;
    for (const bool overlap : choices.overlap_tp_comms) {
      if (sequence_parallel || overlap == choices.overlap_tp_comms.front()) {
        visit_recomputes(overlap);
      }
    }
  };
  for (const int64_t micro_batch_size : choices.micro_batch_sizes) {
    family.micro_batch_size = micro_batch_size;
    for (const Chunking& chunking : choices.chunkings) {
      family.chunking = chunking;
      for (const spec::ContextKind kind : choices.context_kinds) {
        family.context_kind = kind;
        for (const bool sequence_parallel : choices.sequence_parallels) {
          visit_overlaps(sequence_parallel);
        }
      }
    }
  }
}

int64_t NumWithinChunking(const MeshChoices& choices) {
  // Overlap is a choice under sequence parallelism alone.
  size_t num_sequence_forms = 0;
  for (const bool sequence_parallel : choices.sequence_parallels) {
    num_sequence_forms += sequence_parallel ? choices.overlap_tp_comms.size() : 1;
  }
  return static_cast<int64_t>(choices.micro_batch_sizes.size() * choices.context_kinds.size() *
                              num_sequence_forms * choices.recomputes.size() *
                              choices.finishes.size());
}

void Apply(const FamilyChoice& family, const Request& request, spec::ParallelSpec& layout) {
  layout.micro_batch_size = family.micro_batch_size;
  layout.schedule = family.chunking.schedule;
  layout.virtual_pipeline_size = family.chunking.num_chunks;
  layout.microbatch_group_size =
      family.chunking.num_chunks > 1 ? request.fixed.microbatch_group_size : 0;
  layout.overlap_pp_comm = request.fixed.overlap_pp_comm ||
                           (family.chunking.num_chunks > 1 && request.target.overlap_pp_comm &&
                            HidesCommunication(request));
  layout.context_kind = family.context_kind;
  layout.sequence_parallel = family.sequence_parallel;
  layout.overlap_tp_comm = family.overlap_tp_comm;
}

std::vector<std::vector<int>> PartitionsOf(const Request& request, int num_virtual_stages) {
  if (!request.fixed.layers_per_virtual_stage.empty()) {
    return {request.fixed.layers_per_virtual_stage};
  }
  if (!request.job.runtime.uneven_stages) return {{}};
  return StagePartitions(request.job.model.num_layers, num_virtual_stages);
}

void SetRecompute(const Request& request, RecomputeChoice choice, int num_layers,
                  spec::ParallelSpec& layout) {
  layout.recomputed_layers_per_virtual_stage.clear();
  layout.recompute = choice == RecomputeChoice::kNone        ? spec::Recompute::kNone
                     : choice == RecomputeChoice::kSelective ? spec::Recompute::kSelective
                                                             : spec::Recompute::kFull;
  if (request.pins.num_recomputed_layers) num_layers = *request.pins.num_recomputed_layers;
  if (layout.recompute != spec::Recompute::kFull || num_layers == 0) return;
  const int num_virtual_stages = layout.pipeline_parallel_size * layout.virtual_pipeline_size;
  if (request.job.model.num_layers < num_virtual_stages) return;  // the rules refuse it
  for (const spec::VirtualStage& stage : spec::PartitionStages(request.job.model, layout)) {
    layout.recomputed_layers_per_virtual_stage.push_back(std::min(num_layers, stage.num_layers));
  }
}

void ForEachLayout(const Request& request,
                   const std::function<void(const spec::ParallelSpec&)>& visit) {
  for (const spec::ParallelSpec& mesh : MeshesOf(request)) {
    const MeshChoices choices = ChoicesOf(request, mesh);
    spec::ParallelSpec layout = mesh;
    const auto visit_finishes = [&](RecomputeChoice recompute) {
      const int num_virtual_stages =
          std::max(1, mesh.pipeline_parallel_size) * layout.virtual_pipeline_size;
      for (const std::vector<int>& layers : PartitionsOf(request, num_virtual_stages)) {
        layout.layers_per_virtual_stage = layers;
        SetRecompute(request, recompute, 0, layout);
        for (const Finish& finish : choices.finishes) {
          layout.zero_stage = finish.zero_stage;
          layout.overlap_param_gather = finish.overlap_param_gather;
          visit(layout);
        }
      }
    };
    ForEachFamily(choices, [&](const FamilyChoice& family) {
      Apply(family, request, layout);
      if (family.recompute != RecomputeChoice::kSome) visit_finishes(family.recompute);
    });
  }
}

spec::ParallelSpec PlainLayout(const Request& request) {
  const PinnedAxes& pins = request.pins;
  spec::ParallelSpec layout = request.fixed;
  layout.tensor_parallel_size = pins.tensor_parallel_size.value_or(1);
  layout.pipeline_parallel_size = pins.pipeline_parallel_size.value_or(1);
  layout.context_parallel_size = pins.context_parallel_size.value_or(layout.context_parallel_size);
  layout.expert_parallel_size = pins.expert_parallel_size.value_or(layout.expert_parallel_size);
  layout.expert_tensor_parallel_size =
      pins.expert_tensor_parallel_size.value_or(layout.expert_tensor_parallel_size);
  layout.data_parallel_size =
      RemainingDevices(request, layout.tensor_parallel_size, layout.pipeline_parallel_size,
                       layout.context_parallel_size);
  layout.virtual_pipeline_size = pins.virtual_pipeline_size.value_or(1);
  layout.micro_batch_size = pins.micro_batch_size.value_or(1);
  layout.sequence_parallel = pins.sequence_parallel.value_or(false);
  layout.zero_stage = pins.zero_stage.value_or(1);
  layout.context_kind = pins.context_kind.value_or(layout.context_kind);
  layout.schedule = pins.schedule.value_or(layout.virtual_pipeline_size > 1
                                               ? ScheduleKind::kInterleaved
                                               : ScheduleKind::kOneForwardOneBackward);
  layout.recompute = pins.recompute.value_or(spec::Recompute::kNone);
  if (pins.num_recomputed_layers) SetRecompute(request, RecomputeChoice::kFull, 0, layout);
  return layout;
}

}  // namespace tessera::planner
