// What the emulation throws where a program is wrong in a way that a GPU may not even notice.
#pragma once

#include <stdexcept>
#include <string>

namespace tessera::cuda_emulation {

// A deadlock inside a block, an access out of bounds, a stream that waits for what never comes: the
// message names kernel, block, thread and place. Kernels run long after they were launched, so it
// leaves the emulation through the next call that synchronises (cudaStreamSynchronize and its kin);
// from then on the calls for that device return cudaErrorLaunchFailure, as after a crash on a GPU.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tessera::cuda_emulation
