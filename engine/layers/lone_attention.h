// Attention of a rank that holds whole sequences.
#pragma once

#include "engine/layers/attention_core.h"

namespace tessera::engine {

class LoneAttention final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  void Forward(Buffer qkv, CoreStash& stash) const override;
  void Recompute(CoreStash& stash) const override;
  Buffer Backward(CoreStash& stash, Buffer doutput) const override;

 private:
  spec::AttentionPart Whole() const;
};

}  // namespace tessera::engine
