// Attention with heads swapped for tokens (Jacobs et al. 2023, arXiv:2309.14509): each rank takes
// its share of the heads, of whole sequences.
#pragma once

#include <vector>

#include "engine/layers/attention_core.h"

namespace tessera::engine {

class SwappedAttention final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  // Gone once its heads are swapped.
  Buffer AllocateQkv() const override;
  void Forward(Buffer qkv, CoreStash& stash) const override;
  void Recompute(CoreStash& stash) const override;
  Buffer Backward(CoreStash& stash, Buffer doutput) const override;

 private:
  // The heads of q, of k, of v or of the output among the columns of a row.
  struct Columns {
    int64_t first = 0, width = 0;
  };
  // Rows of all heads, [tokens, width]: what is swapped.
  struct Rows {
    std::vector<Columns> heads;
    int64_t width = 0;
  };

  int size() const { return context_.shape.context_parallel_size; }
  Rows Qkv() const;
  Rows Output() const;
  template <typename Args>
  void SetHeads(Args& args) const;

  // What goes to each rank: its heads of this rank's tokens, block by block.
  Buffer PackHeads(const Rows& rows, kernels::ConstArray from) const;
  // Exchanges it for rows of this rank's heads, [all tokens, width / n].
  Buffer UnpackTokens(const Rows& rows, Buffer packed, MemoryKind kind) const;
  // And back: each rank's tokens, block by block, then rows of all heads.
  Buffer PackTokens(const Rows& rows, kernels::ConstArray from) const;
  Buffer UnpackHeads(const Rows& rows, Buffer packed, MemoryKind kind) const;
  Buffer Exchange(const Rows& rows, Buffer packed) const;

  // As many elements as this rank's tokens have, whoever's they are.
  Buffer Allocate(const Rows& rows, MemoryKind kind) const;
  // Of rows of width / n elements, in blocks by rank and in whole sequences: from block to block,
  // and from one sample's first token to the next one's.
  kernels::CopyRowsArgs::Strides ByRank(const Rows& rows) const;
  kernels::CopyRowsArgs::Strides InOrder(const Rows& rows) const;
  void CopyTokens(const Rows& rows, kernels::CopyRowsArgs args) const;
};

}  // namespace tessera::engine
