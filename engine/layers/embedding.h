// Vocabulary-parallel word embedding, plus learned positions; dropout.
#pragma once

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

struct EmbeddingStash {
  Buffer tokens;  // int32 [tokens]
};

class Embedding {
 public:
  Embedding(const LayerContext& context, const ParameterStore& store);

  // Embeds stash.tokens: [local_tokens, hidden].
  Buffer Forward(const EmbeddingStash& stash) const;
  void Backward(EmbeddingStash& stash, const Buffer& dy) const;

 private:
  void Drop(kernels::Array rows) const;  // in place: the embeddings, or their gradient

  const LayerContext& context_;
  Parameter word_;      // [vocab, hidden]
  Parameter position_;  // [max_sequence, hidden], null without learned positions
};

}  // namespace tessera::engine
