// Attention to gathered keys and values (Llama 3, arXiv:2407.21783, section 3.3.2): either chunk of
// a rank's queries with those up to its end.
#pragma once

#include "engine/layers/attention_core.h"

namespace tessera::engine {

class GatheredAttention final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  void Forward(Buffer qkv, CoreStash& stash) const override;
  void Recompute(CoreStash& stash) const override;
  Buffer Backward(CoreStash& stash, Buffer doutput) const override;

 private:
  int rank() const { return context_.shape.context_rank; }
  int size() const { return context_.shape.context_parallel_size; }
  int64_t BlockElements() const { return context_.shape.tokens * KeyValueWidth(); }
  spec::AttentionPart Part(bool is_late) const;
  // Of the statistics of a chunk: log-sum-exps by row, probabilities chunk by chunk.
  kernels::Array StatsOf(const Buffer& stats, bool is_late) const;

  enum class Order { kToSequence, kToRanks };
  // Between blocks by rank, [batch, 2 chunks] each, and whole sequences, [batch, 2 n chunks].
  void CopyChunks(Order order, kernels::ConstArray from, kernels::Array to) const;
  // Keys and values of all ranks in the order of the sequence.
  Buffer GatherKeys(const CoreStash& stash) const;
  void AttendBackward(const CoreStash& stash, const Buffer& keys, const Buffer& doutput,
                      kernels::Array dqkv, kernels::Array key_sums) const;
};

}  // namespace tessera::engine
