#include "engine/train/input_slots.h"

#include <algorithm>

namespace tessera::engine {

InputSlots::InputSlots(kernels::Backend& backend, int num_microbatches, int64_t tokens)
    : backend_(backend),
      tokens_(tokens),
      num_bytes_(static_cast<size_t>(2 * tokens * num_microbatches) * sizeof(int32_t)),
      memory_(static_cast<int32_t*>(backend.AllocatePinned(num_bytes_))),
      loaded_for_(static_cast<size_t>(num_microbatches), -1) {}

InputSlots::~InputSlots() { backend_.FreePinned(memory_, num_bytes_); }

Microbatch InputSlots::Get(int64_t consumed_samples, int microbatch,
                           const std::function<Microbatch()>& load) {
  int32_t* const tokens = memory_ + 2 * tokens_ * microbatch;
  int32_t* const labels = tokens + tokens_;
  int64_t& loaded_for = loaded_for_.at(static_cast<size_t>(microbatch));
  if (loaded_for != consumed_samples) {
    const Microbatch loaded = load();
    std::copy_n(loaded.tokens, tokens_, tokens);
    std::copy_n(loaded.labels, tokens_, labels);
    loaded_for = consumed_samples;
  }
  return {.tokens = tokens, .labels = labels};
}

}  // namespace tessera::engine
