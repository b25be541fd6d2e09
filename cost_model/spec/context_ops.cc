#include "cost_model/spec/context_ops.h"

#include "cost_model/spec/context_tokens.h"

namespace tessera::spec {
namespace {

using base::AttentionMask;
using base::AttentionSums;
using base::OpKind;

// Heads of one call of the attention kernel.
struct Heads {
  int64_t queries = 0;
  int64_t keys = 0;
};

class CoreWriter {
 public:
  CoreWriter(OpWriter& write, OpKind kind, const LayerForm& form)
      : write_(write),
        shape_(write.shape()),
        kind_(kind),
        window_(form.is_windowed ? write.model().sliding_window->size : 0),
        num_ranks_(shape_.context_parallel_size),
        rank_(shape_.context_rank) {}

  void Alone() {
    Attend({.num_queries = shape_.sequence, .num_keys = shape_.sequence}, OwnHeads(),
           AttentionSums::kNone);
  }

  void RingForward() {
    CopyRows(shape_.tokens, KeyValueWidth());
    for (int step = 0; step < num_ranks_; ++step) {
      if (step + 1 < num_ranks_) PassOn(shape_.element_bytes);
      const int source = RingSourceForward(rank_, step, num_ranks_);
      const AttentionPart part = RingPart(rank_, source, shape_.sequence);
      Attend(part, OwnHeads(), AttentionSums::kNone);
      if (step == 0) {
        write_.Add(OpKind::kCast, {OutputElements()});
      } else {
        write_.Add(OpKind::kLogSumExpMerge,
                   {shape_.batch, part.num_queries, shape_.heads, shape_.value_head_dim});
      }
    }
    write_.Add(OpKind::kCast, {OutputElements()});
  }

  void RingBackward() {
    CopyRows(shape_.tokens, KeyValueWidth());
    PassOn(shape_.element_bytes);
    write_.Add(OpKind::kFill, {shape_.tokens * QueryWidth()});
    for (int step = 0; step < num_ranks_; ++step) {
      write_.Add(OpKind::kFill, {KeyValueElements()});
      if (step + 2 < num_ranks_) PassOn(shape_.element_bytes);
      if (step > 0) PassOn(kSumBytes);
      const int source = RingSourceBackward(rank_, step, num_ranks_);
      Attend(RingPart(rank_, source, shape_.sequence), OwnHeads(), AttentionSums::kAll);
      if (step > 0) write_.Add(OpKind::kAdd, {KeyValueElements()});
    }
    CopyRows(shape_.tokens, QueryWidth());
    CopyRows(shape_.tokens, KeyValueWidth());
  }

  void GatheredForward() {
    GatherKeys();
    AttendGathered(AttentionSums::kNone);
  }

  void GatheredBackward() {
    GatherKeys();
    write_.Add(OpKind::kFill, {num_ranks_ * KeyValueElements()});
    AttendGathered(AttentionSums::kKeysAndValues);
    CopyChunks();
    write_.Add(OpKind::kReduceScatter, {num_ranks_ * KeyValueElements(), num_ranks_, kAxis});
    CopyRows(shape_.tokens, KeyValueWidth());
  }

  void SwappedForward() {
    CopyHeads(shape_.heads, shape_.head_dim);
    CopyHeads(shape_.kv_heads, shape_.head_dim);
    CopyHeads(shape_.kv_heads, shape_.value_head_dim);
    Swap(shape_.qkv_width);
    CopyTokens(shape_.qkv_width);
    AttendSwapped();
    CopyTokens(shape_.attention_width);
    Swap(shape_.attention_width);
    CopyHeads(shape_.heads, shape_.value_head_dim);
  }

  void SwappedBackward() {
    CopyHeads(shape_.heads, shape_.value_head_dim);
    Swap(shape_.attention_width);
    CopyTokens(shape_.attention_width);
    AttendSwapped();
    CopyTokens(shape_.qkv_width);
    Swap(shape_.qkv_width);
    CopyHeads(shape_.heads, shape_.head_dim);
    CopyHeads(shape_.kv_heads, shape_.head_dim);
    CopyHeads(shape_.kv_heads, shape_.value_head_dim);
  }

  void AttendSwapped() {
    const int64_t sequence = num_ranks_ * shape_.sequence;
    Attend({.num_queries = sequence, .num_keys = sequence},
           {shape_.heads / num_ranks_, shape_.kv_heads / num_ranks_}, AttentionSums::kNone);
  }

 private:
  static constexpr int64_t kAxis = static_cast<int64_t>(Axis::kContext);
  static constexpr int64_t kSumBytes = 4;

  Heads OwnHeads() const { return {shape_.heads, shape_.kv_heads}; }
  int64_t QueryWidth() const { return shape_.heads * shape_.head_dim; }
  int64_t KeyValueWidth() const {
    return shape_.kv_heads * (shape_.head_dim + shape_.value_head_dim);
  }
  // Of one rank's tokens.
  int64_t KeyValueElements() const { return shape_.tokens * KeyValueWidth(); }
  int64_t OutputElements() const { return shape_.tokens * shape_.attention_width; }

  void CopyRows(int64_t rows, int64_t width) { write_.Add(OpKind::kCopyRows, {rows, width}); }

  // A block of keys and values, or of their gradients, to the next rank; the one before it sends
  // one here.
  void PassOn(int64_t element_bytes) {
    for (const OpKind kind : {OpKind::kRecv, OpKind::kSend}) {
      write_.Add(kind, {KeyValueElements(), num_ranks_, kAxis, element_bytes});
    }
  }

  // Early chunks of all ranks' blocks, then late ones, into the order of the sequence or out of it.
  void CopyChunks() {
    const int64_t chunk = shape_.sequence / 2;
    for (int i = 0; i < 2; ++i) CopyRows(num_ranks_ * shape_.batch, chunk * KeyValueWidth());
  }

  void GatherKeys() {
    CopyRows(shape_.tokens, KeyValueWidth());
    write_.Add(OpKind::kAllGather, {num_ranks_ * KeyValueElements(), num_ranks_, kAxis});
    CopyChunks();
  }

  void AttendGathered(AttentionSums sums) {
    for (const bool is_late : {false, true}) {
      Attend(GatheredPart(rank_, num_ranks_, shape_.sequence, is_late), OwnHeads(), sums);
    }
  }

  // Columns of the heads of each rank, between the rows of this rank's tokens and blocks by rank.
  void CopyHeads(int64_t heads, int64_t head_dim) {
    CopyRows(num_ranks_ * shape_.tokens, heads / num_ranks_ * head_dim);
  }
  // Rows of `width` / cp elements, between blocks by rank and whole sequences.
  void CopyTokens(int64_t width) {
    CopyRows(num_ranks_ * shape_.batch, shape_.sequence * (width / num_ranks_));
  }
  void Swap(int64_t width) {
    write_.Add(OpKind::kAllToAll, {shape_.tokens * width, num_ranks_, kAxis});
  }

  void Attend(const AttentionPart& part, const Heads& heads, AttentionSums sums) {
    const auto stats = write_.parallel().attention == AttentionKind::kFlash
                           ? base::AttentionStats::kLogSumExp
                           : base::AttentionStats::kProbabilities;
    // Sizes like the plain case's are left out.
    write_.Add(
        kind_,
        {shape_.batch, part.num_queries, heads.queries, heads.keys, shape_.head_dim,
         static_cast<int64_t>(stats), part.num_keys == part.num_queries ? 0 : part.num_keys,
         shape_.value_head_dim == shape_.head_dim ? 0 : shape_.value_head_dim, window_,
         static_cast<int64_t>(part.mask), static_cast<int64_t>(sums), shape_.drops_attention});
  }

  OpWriter& write_;
  const LocalShape& shape_;
  const OpKind kind_;
  const int64_t window_;
  const int num_ranks_;
  const int rank_;
};

}  // namespace

void WriteAttentionCore(OpWriter& write, OpKind kind, const LayerForm& form) {
  CoreWriter core(write, kind, form);
  const bool is_backward = kind == OpKind::kAttentionBackward;
  if (write.shape().context_parallel_size == 1) {
    core.Alone();
    return;
  }
  switch (write.parallel().context_kind) {
    case ContextKind::kRing:
      is_backward ? core.RingBackward() : core.RingForward();
      return;
    case ContextKind::kAllGather:
      is_backward ? core.GatheredBackward() : core.GatheredForward();
      return;
    case ContextKind::kAllToAll:
      is_backward ? core.SwappedBackward() : core.SwappedForward();
      return;
  }
}

void WriteAttentionCoreAgain(OpWriter& write, const LayerForm& form) {
  const bool is_swapped = write.shape().context_parallel_size > 1 &&
                          write.parallel().context_kind == ContextKind::kAllToAll;
  if (is_swapped) {
    CoreWriter(write, OpKind::kAttentionForward, form).AttendSwapped();
  } else {
    WriteAttentionCore(write, OpKind::kAttentionForward, form);
  }
}

}  // namespace tessera::spec
