// A stage's memory told apart, term by term, each with how well it is known.
#pragma once

#include <vector>

#include "cost_model/stage_memory.h"

namespace tessera::cost_model {

// The terms of a stage that AssembleStage has put together; they sum to memory.Used(). `by_chunk`:
// spec::KeptBytesOf of its chunks. Terms of no bytes are left out.
std::vector<spec::MemoryTerm> MemoryTermsOf(
    const spec::ClusterSpec& cluster, const spec::TrainingSpec& training,
    const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime, const StageParts& parts,
    const std::vector<spec::StageActivationBytes>& by_chunk, const spec::StageMemory& memory);

}  // namespace tessera::cost_model
