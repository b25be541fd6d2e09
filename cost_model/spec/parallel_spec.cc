#include "cost_model/spec/parallel_spec.h"

#include <algorithm>

#include "cost_model/spec/enum_names.h"

namespace tessera::spec {
namespace {

constexpr EnumNames<Recompute, 3> kRecomputes = {
    {{Recompute::kNone, "none"}, {Recompute::kSelective, "selective"}, {Recompute::kFull, "full"}}};
constexpr EnumNames<ScheduleKind, 4> kScheduleKinds = {
    {{ScheduleKind::kGPipe, "gpipe"},
     {ScheduleKind::kOneForwardOneBackward, "1f1b"},
     {ScheduleKind::kInterleaved, "interleaved"},
     {ScheduleKind::kZeroBubbleH1, "zb-h1"}}};
constexpr EnumNames<AttentionKind, 2> kAttentionKinds = {
    {{AttentionKind::kUnfused, "unfused"}, {AttentionKind::kFlash, "flash"}}};
constexpr EnumNames<ContextKind, 3> kContextKinds = {{{ContextKind::kRing, "ring"},
                                                      {ContextKind::kAllGather, "all-gather"},
                                                      {ContextKind::kAllToAll, "all-to-all"}}};

}  // namespace

std::string_view ToString(Recompute recompute) { return NameOf(kRecomputes, recompute); }
std::string_view ToString(ScheduleKind kind) { return NameOf(kScheduleKinds, kind); }
std::string_view ToString(AttentionKind kind) { return NameOf(kAttentionKinds, kind); }
std::string_view ToString(ContextKind kind) { return NameOf(kContextKinds, kind); }

std::optional<Recompute> RecomputeFromString(std::string_view text) {
  return ValueOf(kRecomputes, text);
}

std::optional<ScheduleKind> ScheduleKindFromString(std::string_view text) {
  return ValueOf(kScheduleKinds, text);
}

std::optional<AttentionKind> AttentionKindFromString(std::string_view text) {
  return ValueOf(kAttentionKinds, text);
}

std::optional<ContextKind> ContextKindFromString(std::string_view text) {
  return ValueOf(kContextKinds, text);
}

int WorldSize(const ParallelSpec& parallel) {
  return parallel.tensor_parallel_size * parallel.context_parallel_size *
         parallel.pipeline_parallel_size * parallel.data_parallel_size;
}

int GradientGroupSize(const ParallelSpec& parallel) {
  return parallel.data_parallel_size * parallel.context_parallel_size;
}

int ExpertTensorSize(const ParallelSpec& parallel) {
  return parallel.expert_tensor_parallel_size > 0 ? parallel.expert_tensor_parallel_size
                                                  : parallel.tensor_parallel_size;
}

int ExpertDataSize(const ParallelSpec& parallel) {
  // At least one, also for a part of the ranks that holds less than the experts need.
  const int64_t stage_ranks = int64_t{parallel.tensor_parallel_size} * GradientGroupSize(parallel);
  const int64_t expert_ranks = int64_t{ExpertTensorSize(parallel)} * parallel.expert_parallel_size;
  return static_cast<int>(std::max<int64_t>(1, stage_ranks / expert_ranks));
}

int ShardGroupSize(const ParallelSpec& parallel) {
  const int group_size = GradientGroupSize(parallel);
  return parallel.zero_group_size > 0 ? std::min(parallel.zero_group_size, group_size) : group_size;
}

int ExpertShardGroupSize(const ParallelSpec& parallel) {
  const int num_replicas = GradientGroupSize(parallel) / ShardGroupSize(parallel);
  return std::max(1, ExpertDataSize(parallel) / num_replicas);
}

int MicrobatchGroupSize(const ParallelSpec& parallel) {
  return parallel.microbatch_group_size > 0 ? parallel.microbatch_group_size
                                            : parallel.pipeline_parallel_size;
}

int64_t SamplesPerRound(const ParallelSpec& parallel) {
  return parallel.micro_batch_size * parallel.data_parallel_size;
}

int64_t NumMicrobatches(const TrainingSpec& training, const ParallelSpec& parallel) {
  return training.global_batch_size / (parallel.micro_batch_size * parallel.data_parallel_size);
}

int64_t FirstSampleOf(const ParallelSpec& parallel, int microbatch, int data_rank) {
  return (static_cast<int64_t>(microbatch) * parallel.data_parallel_size + data_rank) *
         parallel.micro_batch_size;
}

}  // namespace tessera::spec
