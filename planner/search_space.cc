#include "planner/search_space.h"

#include <algorithm>

namespace tessera::planner {
namespace {

using spec::ScheduleKind;

template <typename T>
std::vector<T> PinnedOr(const std::optional<T>& pin, std::vector<T> otherwise) {
  if (pin) return {*pin};
  return otherwise;
}

std::vector<int> IntDivisorsOf(int64_t n) {
  const std::vector<int64_t> divisors = DivisorsOf(n);
  return {divisors.begin(), divisors.end()};
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

// Schedules with their chunks per stage.
struct Chunking {
  ScheduleKind schedule;
  int num_chunks;
};

std::vector<Chunking> Chunkings(const Request& request, int pp) {
  const PinnedAxes& pins = request.pins;
  if (pins.virtual_pipeline_size) {
    const int chunks = *pins.virtual_pipeline_size;
    const ScheduleKind otherwise =
        chunks > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneForwardOneBackward;
    return {{pins.schedule.value_or(otherwise), chunks}};
  }
  const ScheduleKind schedule = pins.schedule.value_or(ScheduleKind::kOneForwardOneBackward);
  std::vector<Chunking> chunkings;
  if (schedule != ScheduleKind::kInterleaved) chunkings.push_back({schedule, 1});
  if (pins.schedule && schedule != ScheduleKind::kInterleaved) return chunkings;
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

std::vector<spec::Recompute> Recomputes(const Request& request) {
  using spec::Recompute;
  if (request.pins.recompute) return {*request.pins.recompute};
  // Flash attention keeps no probabilities that selective recomputation could spare.
  if (request.fixed.attention == spec::AttentionKind::kFlash) {
    return {Recompute::kNone, Recompute::kFull};
  }
  return {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
}

int RemainingDevices(const Request& request, int tp, int pp) {
  if (request.pins.data_parallel_size) return *request.pins.data_parallel_size;
  const int64_t per_replica = static_cast<int64_t>(std::max(1, tp)) * std::max(1, pp) *
                              std::max(1, request.fixed.context_parallel_size);
  return static_cast<int>(std::max<int64_t>(1, request.job.num_devices / per_replica));
}

// The axes within one (tp, pp, dp).
void VisitMesh(const Request& request, spec::ParallelSpec layout,
               const std::function<void(const spec::ParallelSpec&)>& visit) {
  const int tp = layout.tensor_parallel_size;
  const int dp = layout.data_parallel_size;
  const auto sequence_parallels =
      PinnedOr<bool>(request.pins.sequence_parallel,
                     tp > 1 ? std::vector<bool>{false, true} : std::vector<bool>{false});
  const auto zero_stages =
      PinnedOr<int>(request.pins.zero_stage, dp > 1 ? std::vector<int>{1, 0} : std::vector<int>{1});
  const auto recomputes = Recomputes(request);
  const auto chunkings = Chunkings(request, std::max(1, layout.pipeline_parallel_size));
  for (const int64_t micro_batch_size : MicroBatchSizes(request, std::max(1, dp))) {
    layout.micro_batch_size = micro_batch_size;
    for (const Chunking& chunking : chunkings) {
      layout.schedule = chunking.schedule;
      layout.virtual_pipeline_size = chunking.num_chunks;
      for (const bool sequence_parallel : sequence_parallels) {
        layout.sequence_parallel = sequence_parallel;
        for (const spec::Recompute recompute : recomputes) {
          layout.recompute = recompute;
          for (const int zero_stage : zero_stages) {
            layout.zero_stage = zero_stage;
            visit(layout);
          }
        }
      }
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

void ForEachLayout(const Request& request,
                   const std::function<void(const spec::ParallelSpec&)>& visit) {
  const PinnedAxes& pins = request.pins;
  const int64_t num_devices = request.job.num_devices;
  const int64_t cp = std::max(1, request.fixed.context_parallel_size);
  const bool has_dp = pins.data_parallel_size.has_value();
  const int64_t dp = std::max(1, pins.data_parallel_size.value_or(1));
  const int64_t model_ranks = std::max<int64_t>(1, num_devices / (cp * dp));
  // The last axis that is left open takes the devices that remain.
  const auto sizes = [](int64_t ranks, bool is_last) {
    return is_last ? std::vector<int>{static_cast<int>(ranks)} : IntDivisorsOf(ranks);
  };
  const int64_t pinned_pp = std::max(1, pins.pipeline_parallel_size.value_or(1));
  const bool tp_is_last = has_dp && pins.pipeline_parallel_size.has_value();
  const int64_t tensor_ranks =
      tp_is_last ? std::max<int64_t>(1, model_ranks / pinned_pp) : model_ranks;
  for (const int tp : PinnedOr<int>(pins.tensor_parallel_size, sizes(tensor_ranks, tp_is_last))) {
    const int64_t stages = std::max<int64_t>(1, model_ranks / std::max(1, tp));
    for (const int pp : PinnedOr<int>(pins.pipeline_parallel_size, sizes(stages, has_dp))) {
      spec::ParallelSpec layout = request.fixed;
      layout.tensor_parallel_size = tp;
      layout.pipeline_parallel_size = pp;
      layout.data_parallel_size = RemainingDevices(request, tp, pp);
      VisitMesh(request, layout, visit);
    }
  }
}

spec::ParallelSpec PlainLayout(const Request& request) {
  const PinnedAxes& pins = request.pins;
  spec::ParallelSpec layout = request.fixed;
  layout.tensor_parallel_size = pins.tensor_parallel_size.value_or(1);
  layout.pipeline_parallel_size = pins.pipeline_parallel_size.value_or(1);
  layout.data_parallel_size =
      RemainingDevices(request, layout.tensor_parallel_size, layout.pipeline_parallel_size);
  layout.virtual_pipeline_size = pins.virtual_pipeline_size.value_or(1);
  layout.micro_batch_size = pins.micro_batch_size.value_or(1);
  layout.sequence_parallel = pins.sequence_parallel.value_or(false);
  layout.recompute = pins.recompute.value_or(spec::Recompute::kNone);
  layout.zero_stage = pins.zero_stage.value_or(1);
  layout.schedule = pins.schedule.value_or(layout.virtual_pipeline_size > 1
                                               ? ScheduleKind::kInterleaved
                                               : ScheduleKind::kOneForwardOneBackward);
  return layout;
}

}  // namespace tessera::planner
