// For a build without cuDNN.
#include "kernels/cuda/attention_library.h"

namespace tessera::kernels::cuda {

std::unique_ptr<AttentionLibrary> MakeAttentionLibrary() { return nullptr; }

}  // namespace tessera::kernels::cuda
