#include "engine/train/input_slots.h"

#include <algorithm>

namespace tessera::engine {
namespace {

int64_t NumbersOf(const InputSizes& sizes) { return 2 * sizes.tokens + sizes.document_starts; }

}  // namespace

InputSlots::InputSlots(kernels::Backend& backend, const InputSizes& sizes)
    : backend_(backend),
      sizes_(sizes),
      num_bytes_(static_cast<size_t>(NumbersOf(sizes) * sizes.num_microbatches) * sizeof(int32_t)),
      memory_(static_cast<int32_t*>(backend.AllocatePinned(num_bytes_))),
      loaded_for_(static_cast<size_t>(sizes.num_microbatches), -1) {}

InputSlots::~InputSlots() { backend_.FreePinned(memory_, num_bytes_); }

Microbatch InputSlots::Get(int64_t consumed_samples, int microbatch,
                           const std::function<Microbatch()>& load) {
  int32_t* const tokens = memory_ + NumbersOf(sizes_) * microbatch;
  int32_t* const labels = tokens + sizes_.tokens;
  int32_t* const document_starts = sizes_.document_starts > 0 ? labels + sizes_.tokens : nullptr;
  int64_t& loaded_for = loaded_for_.at(static_cast<size_t>(microbatch));
  if (loaded_for != consumed_samples) {
    const Microbatch loaded = load();
    std::copy_n(loaded.tokens, sizes_.tokens, tokens);
    std::copy_n(loaded.labels, sizes_.tokens, labels);
    std::copy_n(loaded.document_starts, sizes_.document_starts, document_starts);
    loaded_for = consumed_samples;
  }
  return {.tokens = tokens, .labels = labels, .document_starts = document_starts};
}

}  // namespace tessera::engine
