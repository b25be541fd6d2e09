// How the work is laid out: the size of every axis and the choices that go with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/base/dtype.h"
#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/model_spec.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

enum class Recompute : uint8_t { kNone, kSelective, kFull };
enum class ScheduleKind : uint8_t { kGPipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1 };
enum class AttentionKind : uint8_t { kUnfused, kFlash };
// How context-parallel ranks see each other's keys and values: passed round a ring (Liu et al.
// 2023, arXiv:2310.01889), gathered, or heads swapped for tokens (Jacobs et al. 2023,
// arXiv:2309.14509).
enum class ContextKind : uint8_t { kRing, kAllGather, kAllToAll };

std::string_view ToString(Recompute recompute);  // "none", "selective", "full"
std::string_view ToString(ScheduleKind kind);    // "gpipe", "1f1b", "interleaved", "zb-h1"
std::string_view ToString(AttentionKind kind);   // "unfused", "flash"
std::string_view ToString(ContextKind kind);     // "ring", "all-gather", "all-to-all"
std::optional<Recompute> RecomputeFromString(std::string_view text);
std::optional<ScheduleKind> ScheduleKindFromString(std::string_view text);
std::optional<AttentionKind> AttentionKindFromString(std::string_view text);
std::optional<ContextKind> ContextKindFromString(std::string_view text);

struct ParallelSpec {
  int tensor_parallel_size = 1;
  int pipeline_parallel_size = 1;
  int data_parallel_size = 1;
  int context_parallel_size = 1;
  int expert_parallel_size = 1;
  int expert_tensor_parallel_size = 0;  // ranks that share an expert's matrices; 0: as tp
  int virtual_pipeline_size = 1;  // model chunks per pipeline stage; above 1 only if interleaved
  // Interleaved: micro-batches that go through a chunk before the next chunk takes its turn, at
  // least the stages; 0: as many as stages.
  int microbatch_group_size = 0;
  int64_t micro_batch_size = 1;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  // With kFull: how many of its layers each virtual stage recomputes, the first ones; empty: all.
  std::vector<int> recomputed_layers_per_virtual_stage;
  // 1: optimizer state sharded over dp and cp (the distributed optimizer); 2: gradients too; 3:
  // parameters too (FSDP).
  int zero_stage = 1;
  // Neighbours on the data axis that shard between them; replicas of such a group all-reduce
  // (hybrid sharding). 0: the whole gradient group.
  int zero_group_size = 0;
  bool offload_optimizer = false;  // optimizer state and update on the host
  ScheduleKind schedule = ScheduleKind::kOneForwardOneBackward;
  AttentionKind attention = AttentionKind::kFlash;
  ContextKind context_kind = ContextKind::kRing;
  std::string rank_order = "tp-cp-ep-dp-pp";  // first varies fastest
  // Layers of each virtual stage (chunk c of stage r is virtual stage c * pp + r); empty: as even
  // as can be, see PartitionStages.
  std::vector<int> layers_per_virtual_stage;
  int64_t vocab_size_multiple = 128;     // the padded vocabulary is a multiple of this times tp
  int64_t bucket_elements = 40'000'000;  // gradient bucket size aimed at
  base::DType gradient_reduce_type = base::DType::kFloat32;
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = false;  // ZeRO 1 and 2: behind the next step's forward pass
  bool overlap_tp_comm = false;       // tensor-parallel collectives behind matrix products
  // Sends and receives behind other passes: see PipelineSchedule::overlaps_transfers.
  bool overlap_pp_comm = false;
  // Without sequence parallelism: each tensor rank sends its share of a transfer, the receivers
  // gather (Narayanan et al. 2021, arXiv:2104.04473, section 4.1).
  bool scatter_gather_transfers = false;
  bool operator==(const ParallelSpec&) const = default;
};

// tp * cp * pp * dp; experts share the ranks of a pipeline stage.
int WorldSize(const ParallelSpec& parallel);
// Ranks that hold the same parameters, experts apart: dp * cp.
int GradientGroupSize(const ParallelSpec& parallel);
// Ranks that share an expert's matrices: expert_tensor_parallel_size, or tp.
int ExpertTensorSize(const ParallelSpec& parallel);
// Ranks that hold the same parts of the same experts: tp * cp * dp / (etp * ep).
int ExpertDataSize(const ParallelSpec& parallel);
// Ranks that shard state between them: zero_group_size, or the whole gradient group. And those that
// shard the state of experts: as large a part of theirs.
int ShardGroupSize(const ParallelSpec& parallel);
int ExpertShardGroupSize(const ParallelSpec& parallel);
// Micro-batches that go through a chunk of an interleaved schedule in turn: as said, or the stages.
int MicrobatchGroupSize(const ParallelSpec& parallel);
// Samples of one micro-batch of every data rank.
int64_t SamplesPerRound(const ParallelSpec& parallel);
// Micro-batches of one step on one pipeline. REQUIRES: FindViolations is empty.
int64_t NumMicrobatches(const TrainingSpec& training, const ParallelSpec& parallel);
// First sample, of the step's, of a micro-batch of a data rank: samples go to data ranks in turn, a
// micro-batch each, so that the global batch does not depend on the layout.
int64_t FirstSampleOf(const ParallelSpec& parallel, int microbatch, int data_rank);

// A broken rule or limit. `needed` and `available` carry the two numbers that clash.
struct Violation {
  std::string constraint;  // short and stable: "heads % tp", "device memory"
  std::string message;     // one sentence with the numbers
  double needed = 0;
  double available = 0;
  std::string unit;
  bool operator==(const Violation&) const = default;
};

// Every rule that the layout breaks, memory apart: sizes that must divide, schedules that need more
// micro-batches, axes that the model cannot use. Empty: the engine can build it.
// `num_devices` 0 leaves the world size free.
std::vector<Violation> FindViolations(const ModelSpec& model, const TrainingSpec& training,
                                      const ParallelSpec& parallel, int num_devices);

}  // namespace tessera::spec
