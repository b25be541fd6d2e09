#include "cost_model/memory.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>

#include "cost_model/base/check.h"
#include "cost_model/memory_terms.h"
#include "cost_model/spec/activation_peak.h"
#include "cost_model/spec/kept_tensors.h"
#include "cost_model/spec/pipeline_schedule.h"
#include "cost_model/spec/workspace.h"
#include "cost_model/stage_memory.h"

namespace tessera::cost_model {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string Gibibytes(double bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(bytes < 10 * kGiB ? 2 : 1) << bytes / kGiB << " GiB";
  return text.str();
}

// The parameters of one pipeline stage; its activations and workspace are still to be filled in.
StageParts PartsOfParameters(const std::vector<spec::VirtualStage>& own,
                             const spec::ModelSpec& model, const spec::TrainingSpec& training,
                             const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime) {
  StageParts parts;
  const std::vector<spec::ParameterSpec> parameters =
      spec::RankParameters(model, parallel, own, /*expert_rank=*/0);
  parts.state = spec::StateBytesOf(
      ElementsIn(runtime, spec::StateElementsOf(parameters, MakeFlatLayout(parameters, parallel),
                                                model, parallel)),
      training, parallel);
  for (const spec::VirtualStage& chunk : own) {
    spec::VirtualStage ends = chunk;
    ends.num_layers = 0;
    for (const spec::ParameterSpec& parameter : spec::StageParameters(model, parallel, ends)) {
      parts.end_elements += spec::SliceOf(parameter, parallel.tensor_parallel_size, 0).num_elements;
    }
    parts.placeholder_bytes =
        std::max(parts.placeholder_bytes, PlaceholderBytes(model, training, parallel, chunk));
  }
  return parts;
}

// What PartsOfParameters looks at in a stage: stages that are alike here have the same parts.
std::vector<int> ShapeOf(const std::vector<spec::VirtualStage>& own, const spec::ModelSpec& model) {
  std::vector<int> shape;
  for (const spec::VirtualStage& chunk : own) {
    const spec::PerForm<int> forms = spec::CountForms(model, chunk);
    const bool is_mixed =
        std::count(forms.begin(), forms.end(), 0) + 1 < static_cast<int64_t>(forms.size());
    shape.insert(shape.end(), forms.begin(), forms.end());
    // Where layers of several forms follow each other, so does the order matter.
    shape.insert(shape.end(), {chunk.has_embedding, chunk.has_head, is_mixed * chunk.first_layer});
  }
  return shape;
}

}  // namespace

int64_t MaxPassesInFlight(const spec::ParallelSpec& parallel, int64_t num_microbatches, int stage) {
  const int64_t p = parallel.pipeline_parallel_size;
  const int64_t v = parallel.virtual_pipeline_size;
  switch (parallel.schedule) {
    case spec::ScheduleKind::kGPipe:
      return num_microbatches;
    case spec::ScheduleKind::kOneForwardOneBackward:
    case spec::ScheduleKind::kZeroBubbleH1:
      return std::min(num_microbatches, p - stage);
    case spec::ScheduleKind::kInterleaved:
      return std::min(num_microbatches * v,
                      2 * (p - 1 - stage) + (v - 1) * spec::MicrobatchGroupSize(parallel) + 1);
  }
  base::FailCheck(__FILE__, __LINE__, "known schedule", static_cast<int>(parallel.schedule));
}

std::vector<spec::StageMemory> MemoryOf(const spec::ModelSpec& model,
                                        const spec::ClusterSpec& cluster,
                                        const spec::TrainingSpec& training,
                                        const spec::ParallelSpec& parallel,
                                        const std::vector<spec::VirtualStage>& stages,
                                        const spec::RuntimeSpec& runtime) {
  const int64_t num_microbatches = spec::NumMicrobatches(training, parallel);
  // GPipe holds every further micro-batch as well.
  const spec::PipelineSchedule schedule = spec::MakeSchedule(
      parallel, static_cast<int>(spec::MicrobatchesUpToPeak(parallel, num_microbatches)));
  const bool holds_all = parallel.schedule == spec::ScheduleKind::kGPipe;
  const int64_t num_more = holds_all ? num_microbatches - schedule.num_microbatches : 0;
  const spec::PassWorkspace workspace = spec::PassWorkspaceOf(
      model, training, parallel, spec::MakeLocalShape(model, training, parallel));
  const std::vector<spec::TransferBuffers> transfers =
      spec::TransferBuffersOf(parallel, num_microbatches);
  std::map<std::vector<int>, StageParts> of_parameters;  // most stages are like another
  std::vector<spec::StageMemory> memory;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    const std::vector<spec::VirtualStage> own = spec::StagesOf(stages, stage);
    std::vector<spec::StageActivationBytes> by_chunk;
    for (const spec::VirtualStage& chunk : own) {
      by_chunk.push_back(spec::KeptBytesOf(model, training, parallel, chunk, runtime));
    }
    const auto [known, is_new] = of_parameters.try_emplace(ShapeOf(own, model));
    if (is_new) {
      known->second = PartsOfParameters(own, model, training,
                                        LayoutOfState(cluster, runtime, parallel), runtime);
    }
    StageParts parts = known->second;
    if (own.front().has_embedding) {
      parts.state = SplitPositions(parts.state, model, training, parallel, runtime);
    }
    parts.activations_bytes = spec::PeakActivationBytes(schedule.actions_by_stage[stage],
                                                        parallel.pipeline_parallel_size, by_chunk) +
                              num_more * by_chunk[0].saved_bytes;
    for (const spec::VirtualStage& chunk : own) {
      parts.workspace_bytes =
          std::max(parts.workspace_bytes,
                   spec::ChunkWorkspaceBytes(model, workspace, transfers[stage], chunk));
    }
    memory.push_back(AssembleStage(cluster, training, parallel, runtime, parts));
    memory.back().terms =
        MemoryTermsOf(cluster, training, parallel, runtime, parts, by_chunk, memory.back());
  }
  return memory;
}

int64_t PeakBytes(const std::vector<spec::StageMemory>& stages) {
  int64_t peak_bytes = 0;
  for (const spec::StageMemory& stage : stages) peak_bytes = std::max(peak_bytes, stage.Total());
  return peak_bytes;
}

int64_t BytesIn(const spec::StageMemory& stage, MemoryStatistic statistic) {
  switch (statistic) {
    case MemoryStatistic::kAllocated:
      return stage.Allocated();
    case MemoryStatistic::kReserved:
      return stage.Reserved();
    case MemoryStatistic::kUsed:
      return stage.Used();
  }
  base::FailCheck(__FILE__, __LINE__, "known statistic", static_cast<int>(statistic));
}

double NeededBytes(const spec::StageMemory& stage, const spec::RuntimeSpec& runtime) {
  const double factor = 1 + runtime.allocator_reserve + runtime.allocator_reserve_margin;
  return factor * static_cast<double>(stage.Allocated()) + static_cast<double>(stage.context_bytes);
}

double NeededBytes(const std::vector<spec::StageMemory>& stages, const spec::ClusterSpec& cluster,
                   const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime) {
  if (cluster.shared_compute_units == 0) {
    double most_bytes = 0;
    for (const spec::StageMemory& stage : stages) {
      most_bytes = std::max(most_bytes, NeededBytes(stage, runtime));
    }
    return most_bytes;
  }
  const int ranks_per_stage = spec::WorldSize(parallel) / parallel.pipeline_parallel_size;
  double sum_bytes = 0;
  for (const spec::StageMemory& stage : stages) {
    sum_bytes += static_cast<double>(stage.Total()) * ranks_per_stage;
  }
  return sum_bytes;
}

std::optional<spec::Violation> FindMemoryViolation(const std::vector<spec::StageMemory>& stages,
                                                   const spec::ClusterSpec& cluster,
                                                   const spec::ParallelSpec& parallel,
                                                   const spec::RuntimeSpec& runtime) {
  const double needed = NeededBytes(stages, cluster, parallel, runtime);
  const auto available = static_cast<double>(cluster.device.memory_bytes);
  if (needed <= available) return std::nullopt;
  const bool is_pool = cluster.shared_compute_units > 0;
  return spec::Violation{
      .constraint = kDeviceMemory,
      .message = base::Concat(is_pool ? "all ranks together need " : "the fullest stage needs ",
                              Gibibytes(needed), is_pool ? "" : " with what its allocator reserves",
                              ", but ", is_pool ? "the machine has " : "a device has ",
                              Gibibytes(available)),
      .needed = needed,
      .available = available,
      .unit = "bytes"};
}

}  // namespace tessera::cost_model
