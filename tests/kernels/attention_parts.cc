#include "tests/kernels/attention_parts.h"

#include <algorithm>
#include <optional>

#include "cost_model/base/check.h"
#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

using base::AttentionMask;
using base::AttentionStats;
using base::AttentionSums;

constexpr int64_t kRowGap = 8;  // behind the rows that lie together with others

// `subtracted`: what `expected` comes from by a difference whose sides were rounded.
void ExpectCloseRows(const Doubles& found, const Doubles& expected, DType dtype,
                     const std::string& what, const Doubles& subtracted = {}) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double error = 0, scale = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    error += std::pow(found[i] - expected[i], 2);
    scale += std::pow(expected[i], 2);
  }
  for (const double value : subtracted) scale += std::pow(value, 2);
  // Some units of the last place; negated, so that a NaN fails.
  const double tolerance = dtype == DType::kFloat32    ? 1e-5
                           : dtype == DType::kBFloat16 ? 1e-2
                                                       : 2e-3;
  if (!(std::sqrt(error) <= tolerance * std::sqrt(scale))) {
    ADD_FAILURE() << what << ": error " << std::sqrt(error) << " of " << std::sqrt(scale);
  }
}

Doubles UnsetNumbers(int64_t n) { return Doubles(static_cast<size_t>(n), std::nan("")); }

// Which part of a rank's queries meets which part of a block's keys.
struct QueryPart {
  int64_t first_query = 0, num_queries = 0, num_keys = 0;
  AttentionMask mask = AttentionMask::kFull;
};

// The rank's own block; the early chunk of one that lies before; the late queries with one behind.
QueryPart PartOf(int rank, int source, int64_t chunk) {
  if (source == rank) return {0, 2 * chunk, 2 * chunk, AttentionMask::kCausal};
  if (source < rank) return {.num_queries = 2 * chunk, .num_keys = chunk};
  return {.first_query = chunk, .num_queries = chunk, .num_keys = 2 * chunk};
}

// What one rank holds: q and dout at the head of longer rows.
struct RankArrays {
  RankArrays(Backend& backend, const WholeAttention& whole, int rank)
      : shape(whole.shape()),
        stride(shape.QueryWidth() + kRowGap),
        rows(whole.rank_rows()),
        q(backend, whole.dtype(), Padded(whole.RowsOf(rank, whole.q, shape.QueryWidth()))),
        dout(backend, whole.dtype(), Padded(whole.RowsOf(rank, whole.dout, shape.QueryWidth()))) {}

  Doubles Padded(const Doubles& dense) const {
    Doubles padded = UnsetNumbers(rows * stride);
    for (size_t i = 0; i < dense.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      padded[at / shape.QueryWidth() * stride + at % shape.QueryWidth()] = dense[i];
    }
    return padded;
  }

  const reference::AttentionShape shape;
  const int64_t stride, rows;
  const TypedArray q, dout;
};

AttentionForwardArgs ForwardArgs(const WholeAttention& whole, const QueryPart& part) {
  const reference::AttentionShape& shape = whole.shape();
  return {.mask = part.mask,
          .batch = shape.batch,
          .sequence = part.num_queries,
          .num_heads = shape.num_heads,
          .num_kv_heads = shape.num_kv_heads,
          .head_dim = shape.head_dim,
          .key_sequence = part.num_keys,
          .query_rows = 2 * whole.chunk(),
          .qkv_stride = shape.QueryWidth() + kRowGap,
          .out_stride = shape.QueryWidth(),
          .kv_stride = 2 * shape.KeyWidth(),
          .scale = static_cast<float>(shape.scale)};
}

AttentionBackwardArgs BackwardArgs(const AttentionForwardArgs& forward) {
  return {.q = forward.q,
          .k = forward.k,
          .v = forward.v,
          .mask = forward.mask,
          .batch = forward.batch,
          .sequence = forward.sequence,
          .num_heads = forward.num_heads,
          .num_kv_heads = forward.num_kv_heads,
          .head_dim = forward.head_dim,
          .key_sequence = forward.key_sequence,
          .query_rows = forward.query_rows,
          .key_rows = forward.key_rows,
          .qkv_stride = forward.qkv_stride,
          .out_stride = forward.out_stride,
          .dqkv_stride = forward.out_stride,
          .kv_stride = forward.kv_stride,
          .dkv_stride = forward.kv_stride,
          .scale = forward.scale,
          .dropout = forward.dropout,
          .documents = forward.documents};
}

// Where documents begin, in the device's memory.
class DeviceStarts {
 public:
  DeviceStarts(Backend& backend, const WholeAttention& whole)
      : sequence_(whole.shape().sequence), is_on_(!whole.document_starts().empty()) {
    if (is_on_) starts_.emplace(backend, whole.document_starts());
  }
  AttentionDocuments Of(const base::TokenPositions& queries,
                        const base::TokenPositions& keys) const {
    if (!is_on_) return {};
    return {.of_samples = {.starts = *starts_, .sequence = sequence_},
            .queries = queries,
            .keys = keys};
  }

 private:
  const int64_t sequence_;
  const bool is_on_;
  std::optional<DeviceInts> starts_;
};

// One rank of a ring: all of its steps forward, then all backward.
class RingRank {
 public:
  RingRank(Backend& backend, const WholeAttention& whole, int rank)
      : backend_(backend),
        whole_(whole),
        rank_(rank),
        arrays_(backend, whole, rank),
        starts_(backend, whole) {}

  // `blocks`: keys and values by rank. `block_grads`: their gradients, fp32, added to.
  void Run(const std::vector<std::unique_ptr<TypedArray>>& blocks,
           const std::vector<std::unique_ptr<TypedArray>>& block_grads) const {
    const reference::AttentionShape& shape = whole_.shape();
    const int64_t elements = arrays_.rows * shape.QueryWidth();
    const int64_t num_stats = arrays_.rows * shape.num_heads;
    const TypedArray out(backend_, DType::kFloat32, Zeros(elements));
    const TypedArray stats(backend_, DType::kFloat32,
                           Doubles(num_stats, -std::numeric_limits<double>::infinity()));
    const int n = whole_.num_ranks();
    for (int step = 0; step < n; ++step) Forward((rank_ + step) % n, blocks, out, stats);
    const std::string what = base::Concat("rank ", rank_, " of ", n, " ");
    ExpectCloseRows(out.Values(), whole_.RowsOf(rank_, whole_.result.out, shape.QueryWidth()),
                    whole_.dtype(), what + "out");
    ExpectCloseRows(stats.Values(), whole_.StatsOf(rank_, whole_.result.log_sum_exp),
                    DType::kFloat32, what + "log-sum-exp");

    const TypedArray rounded(backend_, whole_.dtype(), out.Values());
    const TypedArray dq(backend_, DType::kFloat32, Zeros(elements));
    for (int step = 0; step < n; ++step) {
      const int source = (rank_ + step) % n;
      Backward(source, *blocks[source], rounded, stats, dq, *block_grads[source]);
    }
    ExpectCloseRows(dq.Values(), whole_.RowsOf(rank_, whole_.grads.dq, shape.QueryWidth()),
                    whole_.dtype(), what + "dq", whole_.SubtractedFromDq(rank_));
  }

 private:
  AttentionForwardArgs Args(int source, const QueryPart& part, const TypedArray& block) const {
    AttentionForwardArgs args = ForwardArgs(whole_, part);
    args.dropout = whole_.Dropout(whole_.PositionsOf(rank_).From(part.first_query),
                                  whole_.PositionsOf(source));
    args.documents =
        starts_.Of(whole_.PositionsOf(rank_).From(part.first_query), whole_.PositionsOf(source));
    args.q = arrays_.q.At(part.first_query * args.qkv_stride);
    args.k = block.At(0);
    args.v = block.At(whole_.shape().KeyWidth());
    args.key_rows = 2 * whole_.chunk();
    return args;
  }

  void Forward(int source, const std::vector<std::unique_ptr<TypedArray>>& blocks,
               const TypedArray& out, const TypedArray& stats) const {
    const reference::AttentionShape& shape = whole_.shape();
    const QueryPart part = PartOf(rank_, source, whole_.chunk());
    const TypedArray block_out(backend_, whole_.dtype(),
                               UnsetNumbers(arrays_.rows * shape.QueryWidth()));
    const TypedArray block_stats(backend_, DType::kFloat32,
                                 UnsetNumbers(arrays_.rows * shape.num_heads));
    AttentionForwardArgs args = Args(source, part, *blocks[source]);
    const int64_t out_at = part.first_query * args.out_stride;
    args.out = block_out.At(out_at);
    args.stats = block_stats.At(part.first_query);
    backend_.AttentionForward(args);
    backend_.LogSumExpMerge({.block_out = block_out.At(out_at),
                             .block_stats = block_stats.At(part.first_query),
                             .out = out.At(out_at),
                             .stats = stats.At(part.first_query),
                             .batch = shape.batch,
                             .sequence = part.num_queries,
                             .num_heads = shape.num_heads,
                             .head_dim = shape.head_dim,
                             .sample_rows = 2 * whole_.chunk()});
  }

  void Backward(int source, const TypedArray& block, const TypedArray& out, const TypedArray& stats,
                const TypedArray& dq, const TypedArray& block_grad) const {
    const QueryPart part = PartOf(rank_, source, whole_.chunk());
    AttentionBackwardArgs args = BackwardArgs(Args(source, part, block));
    const int64_t out_at = part.first_query * args.out_stride;
    // dout lies in rows as long as those of q, which out is not: the same length for both.
    const int64_t stride = args.qkv_stride;
    const TypedArray long_out(backend_, whole_.dtype(), arrays_.Padded(out.Values()));
    args.out_stride = stride;
    args.dout = arrays_.dout.At(part.first_query * stride);
    args.out = long_out.At(part.first_query * stride);
    args.stats = stats.At(part.first_query);
    args.dq = dq.At(out_at);
    args.dk = block_grad.At(0);
    args.dv = block_grad.At(whole_.shape().KeyWidth());
    args.sums = AttentionSums::kAll;
    backend_.AttentionBackward(args);
  }

  Backend& backend_;
  const WholeAttention& whole_;
  const int rank_;
  const RankArrays arrays_;
  const DeviceStarts starts_;
};

}  // namespace

void ExpectRingIsWhole(Backend& backend, const WholeAttention& whole) {
  const int64_t width = 2 * whole.shape().KeyWidth();
  const Doubles keys_and_values = whole.KeysAndValues(whole.k, whole.v);
  std::vector<std::unique_ptr<TypedArray>> blocks, grads;
  for (int rank = 0; rank < whole.num_ranks(); ++rank) {
    blocks.push_back(std::make_unique<TypedArray>(backend, whole.dtype(),
                                                  whole.RowsOf(rank, keys_and_values, width)));
    grads.push_back(
        std::make_unique<TypedArray>(backend, DType::kFloat32, Zeros(whole.rank_rows() * width)));
  }
  for (int rank = 0; rank < whole.num_ranks(); ++rank) {
    RingRank(backend, whole, rank).Run(blocks, grads);
  }
  const Doubles expected = whole.KeysAndValues(whole.grads.dk, whole.grads.dv);
  for (int rank = 0; rank < whole.num_ranks(); ++rank) {
    ExpectCloseRows(grads[rank]->Values(), whole.RowsOf(rank, expected, width), whole.dtype(),
                    base::Concat("dk and dv of rank ", rank));
  }
}

void ExpectGatheredIsWhole(Backend& backend, const WholeAttention& whole,
                           AttentionStats stats_kind) {
  const reference::AttentionShape& shape = whole.shape();
  const int n = whole.num_ranks();
  const int64_t chunk = whole.chunk();
  const int64_t width = 2 * shape.KeyWidth();
  const DeviceStarts starts(backend, whole);
  const TypedArray block(backend, whole.dtype(), whole.KeysAndValues(whole.k, whole.v));
  const TypedArray dkv(backend, DType::kFloat32, Zeros(shape.NumRows() * width));
  const bool keeps_all = stats_kind == AttentionStats::kProbabilities;
  for (int rank = 0; rank < n; ++rank) {
    const RankArrays arrays(backend, whole, rank);
    const TypedArray out(backend, whole.dtype(), UnsetNumbers(arrays.rows * arrays.stride));
    const TypedArray dq(backend, whole.dtype(), UnsetNumbers(arrays.rows * shape.QueryWidth()));
    const TypedArray log_sum_exp(backend, DType::kFloat32,
                                 UnsetNumbers(arrays.rows * shape.num_heads));
    for (const int64_t first_query : {int64_t{0}, chunk}) {
      const int64_t end = (first_query == 0 ? rank + 1 : 2 * n - rank) * chunk;
      AttentionForwardArgs args = ForwardArgs(whole, {first_query, chunk, end});
      args.mask = AttentionMask::kCausal;
      args.dropout = whole.Dropout(whole.PositionsOf(rank).From(first_query), {});
      args.documents = starts.Of(whole.PositionsOf(rank).From(first_query), {});
      args.q = arrays.q.At(first_query * arrays.stride);
      args.k = block.At(0);
      args.v = block.At(shape.KeyWidth());
      args.key_rows = shape.sequence;
      args.out = out.At(first_query * arrays.stride);
      args.out_stride = arrays.stride;
      const TypedArray probabilities(backend, whole.dtype(),
                                     UnsetNumbers(shape.batch * shape.num_heads * chunk * end));
      args.stats = keeps_all ? probabilities.At(0) : log_sum_exp.At(first_query);
      args.stats_kind = stats_kind;
      backend.AttentionForward(args);
      AttentionBackwardArgs back = BackwardArgs(args);
      back.stats_kind = stats_kind;
      back.dout = arrays.dout.At(first_query * arrays.stride);
      back.out = args.out;
      back.stats = args.stats;
      back.dq = dq.At(first_query * shape.QueryWidth());
      back.dqkv_stride = shape.QueryWidth();
      back.dk = dkv.At(0);
      back.dv = dkv.At(shape.KeyWidth());
      back.sums = AttentionSums::kKeysAndValues;
      backend.AttentionBackward(back);
    }
    const std::string what = base::Concat("gathered, rank ", rank, " of ", n, " ");
    Doubles dense;
    const Doubles long_out = out.Values();
    for (int64_t row = 0; row < arrays.rows; ++row) {
      const auto begin = long_out.begin() + row * arrays.stride;
      dense.insert(dense.end(), begin, begin + shape.QueryWidth());
    }
    ExpectCloseRows(dense, whole.RowsOf(rank, whole.result.out, shape.QueryWidth()), whole.dtype(),
                    what + "out");
    ExpectCloseRows(dq.Values(), whole.RowsOf(rank, whole.grads.dq, shape.QueryWidth()),
                    whole.dtype(), what + "dq", whole.SubtractedFromDq(rank));
  }
  ExpectCloseRows(dkv.Values(), whole.KeysAndValues(whole.grads.dk, whole.grads.dv), whole.dtype(),
                  "gathered dk and dv");
}

}  // namespace tessera::kernels::testing
