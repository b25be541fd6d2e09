#include "cost_model/spec/context_ops.h"

namespace tessera::spec {
namespace {

using base::AttentionMask;
using base::OpKind;

// One call of the attention kernel.
struct Call {
  int64_t queries = 0;  // of one sequence
  int64_t keys = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  AttentionMask mask = AttentionMask::kCausal;
};

class CoreWriter {
 public:
  CoreWriter(OpWriter& write, OpKind kind, const LayerForm& form)
      : write_(write),
        shape_(write.shape()),
        kind_(kind),
        window_(form.is_windowed ? write.model().sliding_window->size : 0),
        num_ranks_(write.parallel().context_parallel_size) {}

  void Alone() { Attend(OwnTokens()); }

  void Ring() {
    // The rank in the middle: half of the others' keys lie before its early chunk.
    const int num_before = num_ranks_ / 2;
    for (int step = 0; step < num_ranks_; ++step) {
      const bool is_last = step == num_ranks_ - 1;
      // Backward the gradients set out one step after their keys and values.
      const int num_tensors = (is_last ? 0 : 1) + (is_backward() && step > 0 ? 1 : 0);
      if (num_tensors > 0) {
        write_.Add(OpKind::kSend, {num_tensors * KeyValueElements(), num_ranks_, kAxis});
      }
      Call call = OwnTokens();
      if (step > 0) {
        call.mask = AttentionMask::kFull;
        (step <= num_before ? call.keys : call.queries) /= 2;
      }
      Attend(call);
      if (step > 0) Merge(call);
    }
  }

  void Gathered() {
    const int64_t elements = num_ranks_ * KeyValueElements();
    write_.Add(OpKind::kAllGather, {elements, num_ranks_, kAxis});
    Call call = OwnTokens();
    call.keys *= num_ranks_;
    Attend(call);
    if (is_backward()) write_.Add(OpKind::kReduceScatter, {elements, num_ranks_, kAxis});
  }

  void Swapped() {
    const int64_t inputs = shape_.tokens * shape_.heads * shape_.head_dim + KeyValueElements();
    const int64_t outputs = shape_.tokens * shape_.heads * shape_.value_head_dim;
    write_.Add(OpKind::kAllToAll, {is_backward() ? outputs : inputs, num_ranks_, kAxis});
    Call call = OwnTokens();
    call.queries *= num_ranks_;
    call.keys *= num_ranks_;
    call.heads /= num_ranks_;
    call.kv_heads /= num_ranks_;
    Attend(call);
    write_.Add(OpKind::kAllToAll, {is_backward() ? inputs : outputs, num_ranks_, kAxis});
  }

 private:
  static constexpr int64_t kAxis = static_cast<int64_t>(Axis::kContext);

  bool is_backward() const { return kind_ == OpKind::kAttentionBackward; }
  Call OwnTokens() const {
    return {.queries = shape_.sequence,
            .keys = shape_.sequence,
            .heads = shape_.heads,
            .kv_heads = shape_.kv_heads};
  }
  // Of one rank's tokens.
  int64_t KeyValueElements() const {
    return shape_.tokens * shape_.kv_heads * (shape_.head_dim + shape_.value_head_dim);
  }

  void Attend(const Call& call) {
    const auto stats = write_.parallel().attention == AttentionKind::kFlash
                           ? base::AttentionStats::kLogSumExp
                           : base::AttentionStats::kProbabilities;
    // Sizes like the plain case's are left out.
    write_.Add(kind_, {shape_.batch, call.queries, call.heads, call.kv_heads, shape_.head_dim,
                       static_cast<int64_t>(stats), call.keys == call.queries ? 0 : call.keys,
                       shape_.value_head_dim == shape_.head_dim ? 0 : shape_.value_head_dim,
                       window_, static_cast<int64_t>(call.mask)});
  }

  // Forward the step's output joins the sum so far; backward its gradients do.
  void Merge(const Call& call) {
    const int64_t query_rows = shape_.batch * call.queries * call.heads;
    if (!is_backward()) {
      write_.Add(OpKind::kAdd, {query_rows * shape_.value_head_dim});
      return;
    }
    const int64_t key_rows = shape_.batch * call.keys * call.kv_heads;
    write_.Add(OpKind::kAdd, {query_rows * shape_.head_dim});
    write_.Add(OpKind::kAdd, {key_rows * (shape_.head_dim + shape_.value_head_dim)});
  }

  OpWriter& write_;
  const LocalShape& shape_;
  const OpKind kind_;
  const int64_t window_;
  const int num_ranks_;
};

}  // namespace

void WriteAttentionCore(OpWriter& write, OpKind kind, const LayerForm& form) {
  CoreWriter core(write, kind, form);
  if (write.parallel().context_parallel_size == 1) {
    core.Alone();
    return;
  }
  switch (write.parallel().context_kind) {
    case ContextKind::kRing:
      core.Ring();
      return;
    case ContextKind::kAllGather:
      core.Gathered();
      return;
    case ContextKind::kAllToAll:
      core.Swapped();
      return;
  }
}

}  // namespace tessera::spec
