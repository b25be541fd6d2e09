// Attention by a library where it has a kernel for the shape.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/attention_library.h"
#include "kernels/cuda/launchers.h"

namespace tessera::kernels::cuda {

// Builds a pass once a shape. Where its workspace exceeds the scratch it runs in pieces of some
// samples, then of some key/value heads with their query heads: neither know of the others.
class FusedAttention {
 public:
  // Without a library every pass is refused. `deterministic`: only passes that give the same bits
  // each time.
  explicit FusedAttention(std::unique_ptr<AttentionLibrary> library, bool deterministic = false)
      : library_(std::move(library)), deterministic_(deterministic) {}

  // Each enqueues its pass and returns true, or enqueues nothing and returns false where the
  // library does not do it: parts of sequences, documents in them, dropout, sums of gradients,
  // fp32, stored probabilities, widths or addresses that are no multiple of 16 bytes, scratch too
  // small for the smallest piece. Throws base::SystemError when a pass fails to start.
  bool Forward(const LaunchContext& context, const AttentionForwardArgs& args);
  bool Backward(const LaunchContext& context, const AttentionBackwardArgs& args);

  // The library's name; "" without one.
  std::string name() const { return library_ ? library_->name() : ""; }

 private:
  // A tensor in memory, with the way from a sample, and from a key/value head with its query heads,
  // to the next.
  struct Operand {
    const void* data = nullptr;
    int64_t sample_bytes = 0;
    int64_t head_bytes = 0;
  };
  using Operands = std::array<Operand, kNumAttentionTensors>;
  // What runs a shape: the pass of a piece and the piece's part of samples and key/value heads. No
  // graph: the library does not do it.
  struct Pieces {
    std::unique_ptr<AttentionGraph> graph;
    int64_t batch = 0;
    int64_t num_kv_heads = 0;
  };

  template <typename Args>
  static Operands CommonOperands(const Args& args);
  static bool IsFusible(const AttentionShape& shape, base::AttentionStats stats_kind,
                        const Operands& operands);
  static int64_t LeastWorkspaceBytes(const AttentionShape& piece);
  Pieces MakePieces(const AttentionShape& shape, int64_t scratch_bytes);
  bool Run(const LaunchContext& context, const AttentionShape& shape, const Operands& operands);

  std::unique_ptr<AttentionLibrary> library_;
  bool deterministic_;
  std::map<AttentionShape, Pieces> pieces_;  // destroyed before the library
};

}  // namespace tessera::kernels::cuda
