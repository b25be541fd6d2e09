// Buffers that transfers between pipeline stages take, beside those of the passes.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {

// The most that a pipeline stage holds, in units of a message's bytes: as a tensor-parallel rank
// sends it.
struct TransferBuffers {
  // While a forward, or a backward, pass of a chunk runs, its own input and gradient apart, which
  // belong to the pass: what waits to be read, to be sent, or for its send to end.
  std::vector<int64_t> beside_forward;
  std::vector<int64_t> beside_backward;
  int64_t in_exchange = 0;  // while an exchange is posted

  bool operator==(const TransferBuffers&) const = default;
};

// Plays the actions of one stage. `whole`: units of what a pass gives; 1 where it is sent whole.
TransferBuffers TransferBuffersOf(const PipelineSchedule& schedule, int stage, int64_t whole);

// The same of a layout, of which all its micro-batches after the first rounds are left out: by
// stage. Nothing is held beside passes, and exchanges take no more than passes do, where transfers
// are waited for one by one, next to the pass that they belong to, and every stage has layers.
std::vector<TransferBuffers> TransferBuffersOf(const ParallelSpec& parallel,
                                               int64_t num_microbatches);

// Units of what a pass gives in such a layout.
int64_t TransferUnits(const ParallelSpec& parallel);

}  // namespace tessera::spec
