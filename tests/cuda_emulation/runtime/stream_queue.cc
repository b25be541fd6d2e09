#include "tests/cuda_emulation/runtime/stream_queue.h"

#include "tests/cuda_emulation/runtime/fault.h"

namespace tessera::cuda_emulation {

std::unique_ptr<StreamOperation> StreamOperation::Clone() const {
  throw Fault(Describe() + ": cannot be captured into a graph");
}

}  // namespace tessera::cuda_emulation
