// Every layout that a request leaves open, the senseless ones included: what a layout breaks is
// counted, not hidden.
#pragma once

#include <functional>
#include <vector>

#include "planner/request.h"

namespace tessera::planner {

// How layers are recomputed. kSome: the fewest layers of each stage that make it fit.
enum class RecomputeChoice : uint8_t { kNone, kSelective, kSome, kFull };

// A schedule with its chunks per stage.
struct Chunking {
  spec::ScheduleKind schedule = spec::ScheduleKind::kOneForwardOneBackward;
  int num_chunks = 1;
  bool operator==(const Chunking&) const = default;
};

// How a step ends.
struct Finish {
  int zero_stage = 1;
  bool overlap_param_gather = false;
};

// What is open within one mesh: the axes' sizes are set, every combination of these is a layout,
// and each of them has the partitions of PartitionsOf. Simpler choices come first.
struct MeshChoices {
  std::vector<int64_t> micro_batch_sizes;  // divisors of a replica's batch
  std::vector<Chunking> chunkings;
  std::vector<spec::ContextKind> context_kinds;
  std::vector<bool> sequence_parallels;
  std::vector<bool> overlap_tp_comms;  // under sequence parallelism; without: false alone
  std::vector<RecomputeChoice> recomputes;
  std::vector<Finish> finishes;
};

// Layouts of one mesh that differ only in how a step ends and in the layers of their stages.
struct FamilyChoice {
  int64_t micro_batch_size = 1;
  Chunking chunking;
  spec::ContextKind context_kind = spec::ContextKind::kRing;
  bool sequence_parallel = false;
  bool overlap_tp_comm = false;
  RecomputeChoice recompute = RecomputeChoice::kNone;
  bool operator==(const FamilyChoice&) const = default;
};
// Calls `visit` for each, in a fixed order, simpler choices first.
void ForEachFamily(const MeshChoices& choices,
                   const std::function<void(const FamilyChoice&)>& visit);
// Layouts of a mesh for each chunking and partition.
int64_t NumWithinChunking(const MeshChoices& choices);
// Writes the family's choices into a layout of its mesh, recomputation apart. Transfers of chunks
// overlap wherever the runtime can.
void Apply(const FamilyChoice& family, const Request& request, spec::ParallelSpec& layout);

// The meshes, as layouts whose other choices are the request's fixed ones. Axis sizes are divisors
// of the devices, dp takes what is left; cp as long as a rank keeps kLeastContextTokens tokens; ep
// divides the experts; etp is tp or 1.
std::vector<spec::ParallelSpec> MeshesOf(const Request& request);
inline constexpr int64_t kLeastContextTokens = 1024;

std::vector<Finish> FinishesOf(const Request& request, const spec::ParallelSpec& mesh);
MeshChoices ChoicesOf(const Request& request, const spec::ParallelSpec& mesh);

// Layers of the virtual stages: StagePartitions, or the one that the request fixes.
std::vector<std::vector<int>> PartitionsOf(const Request& request, int num_virtual_stages);

// Sets `layout` to recompute as chosen: every layer of a stage for kFull, and, where the request
// pins their number or `num_layers` is not 0, that many of each stage at most.
void SetRecompute(const Request& request, RecomputeChoice choice, int num_layers,
                  spec::ParallelSpec& layout);

// Calls `visit` for each layout in a fixed order, simpler choices first; but for those of kSome,
// which depend on what fits.
void ForEachLayout(const Request& request,
                   const std::function<void(const spec::ParallelSpec&)>& visit);

// Ascending divisors. REQUIRES: n >= 1.
std::vector<int64_t> DivisorsOf(int64_t n);

// The layout that a request describes when nothing is searched: pinned axes, the plainest choice
// elsewhere, dp from the number of devices.
spec::ParallelSpec PlainLayout(const Request& request);

}  // namespace tessera::planner
