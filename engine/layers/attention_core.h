// Attention proper, between the projections: on one rank, or spread over the context-parallel ranks
// that hold the other tokens of the same sequences.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cost_model/spec/context_tokens.h"
#include "engine/layers/layer_context.h"

namespace tessera::engine {

// What the backward pass reads.
struct CoreStash {
  Buffer qkv;     // [tokens, qkv_width]: q heads, k heads, v heads. Where heads are swapped for
                  // tokens: of all tokens, this rank's share of the heads
  Buffer output;  // [tokens, attention_width]; moves to a weight product that is put off
  kernels::Array out;       // its memory, whoever holds it
  Buffer exchanged_output;  // before it was swapped back, where it is
  Buffer stats;  // of the softmax; see kernels::AttentionForwardArgs. Dropped under selective
                 // recomputation
};

class AttentionCore {
 public:
  // `place`: in the model, of the probabilities' dropout.
  AttentionCore(const LayerContext& context, std::string place)
      : context_(context), place_(std::move(place)) {}
  virtual ~AttentionCore() = default;

  // Memory for q, k and v [tokens, qkv_width], rotated: what Forward takes.
  virtual Buffer AllocateQkv() const;
  virtual void Forward(Buffer qkv, CoreStash& stash) const = 0;
  // The statistics that were dropped.
  virtual void Recompute(CoreStash& stash) const = 0;
  // From the gradient of the output [tokens, attention_width] to that of q, k and v, still rotated
  // [tokens, qkv_width].
  virtual Buffer Backward(CoreStash& stash, Buffer doutput) const = 0;

 protected:
  base::AttentionStats StatsKind() const;
  // Arguments of a call that takes this rank's heads and a part of the tokens, with keys at these
  // positions of their sequence; arrays are left to the caller.
  kernels::AttentionForwardArgs ForwardArgs(const spec::AttentionPart& part,
                                            const base::TokenPositions& keys) const;
  kernels::AttentionBackwardArgs BackwardArgs(const spec::AttentionPart& part,
                                              const base::TokenPositions& keys) const;
  // Of keys in the order of their sequence.
  static constexpr base::TokenPositions kInOrder = {};

  // Where k and v start in a row of q, k, v; the width of a row of keys and values, and where
  // values start in one.
  int64_t KeyColumn() const { return context_.shape.heads * context_.shape.head_dim; }
  int64_t ValueColumn() const { return KeyColumn() + KeyWidth(); }
  int64_t KeyValueWidth() const { return 2 * KeyWidth(); }
  int64_t KeyWidth() const { return context_.shape.kv_heads * context_.shape.head_dim; }

  // Rows of keys and values out of q, k, v into rows of their own, or the other way round.
  void CopyKeysAndValues(kernels::ConstArray qkv, kernels::Array block) const;
  void CopyKeyValueGradients(kernels::ConstArray block, kernels::Array dqkv) const;

  const LayerContext& context_;
  const std::string place_;
};

// The layout's way.
std::unique_ptr<AttentionCore> MakeAttentionCore(const LayerContext& context, std::string place);

}  // namespace tessera::engine
