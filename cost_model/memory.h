// Bytes on one rank of every pipeline stage.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cost_model/spec/op_list.h"
#include "cost_model/spec/runtime_spec.h"
#include "cost_model/spec/step_report.h"

namespace tessera::cost_model {

// Passes (micro-batch and chunk) of pipeline stage `stage` between forward and backward at most:
// 1F1B and ZB-H1 min(m, p - r); interleaved in groups of g min(m v, 2 (p - 1 - r) + (v - 1) g + 1);
// GPipe m.
// Narayanan et al. 2021, arXiv:2104.04473, section 2.2.
int64_t MaxPassesInFlight(const spec::ParallelSpec& parallel, int64_t num_microbatches, int stage);

// All stages of a layout, with their terms: what the schedule's actions hold at most, by the
// behaviours of a runtime. buffers_bytes: see stage_memory.h.
// REQUIRES: FindViolations is empty; `stages` is PartitionStages.
std::vector<spec::StageMemory> MemoryOf(const spec::ModelSpec& model,
                                        const spec::ClusterSpec& cluster,
                                        const spec::TrainingSpec& training,
                                        const spec::ParallelSpec& parallel,
                                        const std::vector<spec::VirtualStage>& stages,
                                        const spec::RuntimeSpec& runtime = {});

// The fullest stage, in bytes.
int64_t PeakBytes(const std::vector<spec::StageMemory>& stages);

// What a measurement of memory counts.
enum class MemoryStatistic : uint8_t {
  kAllocated,  // tensors alive (torch.cuda.max_memory_allocated)
  kReserved,   // what their allocator holds (torch.cuda.max_memory_reserved)
  kUsed,       // of the device, context included (nvidia-smi)
};

// A stage in such a measurement. [bytes]
int64_t BytesIn(const spec::StageMemory& stage, MemoryStatistic statistic);

// Bytes that the memory limit holds against device.memory_bytes: those of the fullest stage with
// what the allocator reserves at worst, or, on a pool whose ranks share one memory, the sum over
// all ranks.
double NeededBytes(const std::vector<spec::StageMemory>& stages, const spec::ClusterSpec& cluster,
                   const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime = {});

// Of one stage on a device of its own: its tensors, grown by reserve and margin of the runtime's
// allocator, and the context.
double NeededBytes(const spec::StageMemory& stage, const spec::RuntimeSpec& runtime);

// The constraint that a violation of the memory limit names.
inline constexpr const char* kDeviceMemory = "device memory";

// The memory limit, if broken.
std::optional<spec::Violation> FindMemoryViolation(const std::vector<spec::StageMemory>& stages,
                                                   const spec::ClusterSpec& cluster,
                                                   const spec::ParallelSpec& parallel,
                                                   const spec::RuntimeSpec& runtime = {});

}  // namespace tessera::cost_model
