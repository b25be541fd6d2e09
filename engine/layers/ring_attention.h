// Attention round a ring (Liu et al. 2023, arXiv:2310.01889): a rank's queries meet the keys and
// values of one rank after the other, while those of the next are on their way.
// cost_model/spec/context_ops.h says in which steps.
#pragma once

#include <memory>
#include <vector>

#include "engine/layers/attention_core.h"

namespace tessera::engine {

class RingAttention final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  void Forward(Buffer qkv, CoreStash& stash) const override;
  void Recompute(CoreStash& stash) const override;
  Buffer Backward(CoreStash& stash, Buffer doutput) const override;

 private:
  // A block that goes to the next rank and one that comes from the previous.
  struct Passage {
    const Buffer* going = nullptr;
    Buffer* coming = nullptr;
  };
  // Keys and values of two ranks: those at hand, and those that come or have been used.
  struct Blocks {
    Buffer held, coming;
  };
  // Of the running backward pass, in fp32.
  struct Sums {
    Buffer dq;
    Buffer part;      // of keys and values, as this rank makes them
    Buffer outgoing;  // those of the step before, with all ranks' before it
    Buffer incoming;
  };

  int rank() const { return context_.shape.context_rank; }
  int size() const { return context_.shape.context_parallel_size; }
  int64_t BlockElements() const { return context_.shape.tokens * KeyValueWidth(); }

  // Of a rank's tokens in their sequence.
  base::TokenPositions PositionsOf(int source) const;
  // All blocks set out together; none: null.
  std::unique_ptr<CommHandle> Pass(const std::vector<Passage>& passages) const;
  void Wait(const std::unique_ptr<CommHandle>& passing) const;
  // This rank's own block, ready to be passed on.
  Blocks PackBlocks(const CoreStash& stash) const;
  // k, v and their stride, of a step with the keys of rank `source`.
  template <typename Args>
  void SetKeys(int source, const CoreStash& stash, const Buffer& block, Args& args) const;

  void AttendStep(const spec::AttentionPart& part, int source, const CoreStash& stash,
                  const Buffer& block, kernels::Array stats) const;
  void Merge(const spec::AttentionPart& part, const CoreStash& stash, kernels::Array block_stats,
             kernels::Array sums) const;
  void BackwardStep(int source, const CoreStash& stash, const Buffer& block, const Buffer& doutput,
                    const Sums& sums) const;
  Buffer Collect(const Buffer& dq, const Buffer& dkv) const;
};

}  // namespace tessera::engine
