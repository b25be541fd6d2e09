#include "tests/kernels/whole_attention.h"

#include <algorithm>
#include <random>

namespace tessera::kernels::testing {
namespace {

// With dropout: samples and heads before those here, and heads that are not.
constexpr int64_t kSamplesBefore = 5, kHeadsBefore = 2, kFurtherHeads = 3;
const base::PhiloxKey kDropoutKey = base::MakePhiloxKey(3, "attention");

// Elements [begin, end) of each of `count` blocks of `size`, dense, from block `first` on.
Doubles Slices(const Doubles& x, int64_t first, int64_t count, int64_t size, int64_t begin,
               int64_t end) {
  Doubles slices;
  for (int64_t block = first; block < first + count; ++block) {
    const auto at = x.begin() + block * size;
    slices.insert(slices.end(), at + begin, at + end);
  }
  return slices;
}

// And back.
void PutSlices(const Doubles& slices, int64_t first, int64_t size, int64_t begin, int64_t end,
               Doubles& x) {
  for (int64_t i = 0; i < static_cast<int64_t>(slices.size()); ++i) {
    x[(first + i / (end - begin)) * size + begin + i % (end - begin)] = slices[i];
  }
}

// As WholeAttention::SubtractedFromDq, of a whole sample.
Doubles SoftmaxCorrection(const reference::AttentionShape& shape, const Doubles& q,
                          const Doubles& k, const Doubles& dout, const Doubles& out) {
  Doubles subtracted = reference::Attention(shape, q, k, k, {}).out;  // sum_j P_j k_j
  const auto head_dim = static_cast<size_t>(shape.head_dim);
  for (size_t head = 0; head < subtracted.size(); head += head_dim) {
    double product = 0;
    for (size_t i = head; i < head + head_dim; ++i) product += dout[i] * out[i];
    for (size_t i = head; i < head + head_dim; ++i) subtracted[i] *= shape.scale * product;
  }
  return subtracted;
}

}  // namespace

WholeAttention::WholeAttention(DType dtype, const reference::AttentionShape& shape, int num_ranks,
                               const WholeAttentionOptions& options)
    : dtype_(dtype), shape_(shape), num_ranks_(num_ranks), options_(options) {
  std::mt19937 generator(static_cast<uint32_t>(shape.sequence + num_ranks));
  const auto random = [&](int64_t width, double limit) {
    std::uniform_real_distribution<double> uniform(-limit, limit);
    Doubles values(shape.NumRows() * width);
    for (double& value : values) value = FromBits(dtype, BitsOf(dtype, uniform(generator)));
    return values;
  };
  q = random(shape.QueryWidth(), 2);
  k = random(shape.KeyWidth(), 2);
  v = random(shape.KeyWidth(), 1);
  dout = random(shape.QueryWidth(), 1);
  if (options.has_documents) {
    MakeDocuments();
    return;
  }
  const Doubles mask = Mask();
  result = reference::Attention(shape, q, k, v, mask);
  grads = reference::AttentionBackward(shape, dout, q, k, v, mask);
}

// One begins where a chunk does, so that whole parts of a ring see nothing; some are longer than a
// block of queries, two have a single token.
void WholeAttention::MakeDocuments() {
  const Doubles mask = Mask();
  for (Doubles* const of_queries : {&result.out, &grads.dq, &subtracted_from_dq_}) {
    *of_queries = Zeros(shape_.NumRows() * shape_.QueryWidth());
  }
  for (Doubles* const of_keys : {&grads.dk, &grads.dv}) {
    *of_keys = Zeros(shape_.NumRows() * shape_.KeyWidth());
  }
  result.log_sum_exp = Zeros(shape_.NumRows() * shape_.num_heads);
  for (int64_t sample = 0; sample < shape_.batch; ++sample) {
    int64_t start = 0;
    for (int64_t token = 0; token < shape_.sequence; ++token) {
      const bool begins = token == (1 + sample) * chunk() || token % 37 == 5 + sample ||
                          token % 37 == 6 || token + 1 == shape_.sequence;
      if (begins && token > 0) {
        AddDocument(sample, start, token, mask);
        start = token;
      }
      document_starts_.push_back(static_cast<int32_t>(start));
    }
    AddDocument(sample, start, shape_.sequence, mask);
  }
}

void WholeAttention::AddDocument(int64_t sample, int64_t begin, int64_t end, const Doubles& mask) {
  reference::AttentionShape shape = shape_;
  shape.batch = 1;
  shape.sequence = end - begin;
  const auto rows = [&](const Doubles& x, int64_t width) {
    return Slices(x, sample, 1, shape_.sequence * width, begin * width, end * width);
  };
  const Doubles own_q = rows(q, shape.QueryWidth());
  const Doubles own_k = rows(k, shape.KeyWidth());
  const Doubles own_v = rows(v, shape.KeyWidth());
  Doubles own_mask;
  const int64_t first_head = sample * shape.num_heads;
  for (int64_t head = first_head; !mask.empty() && head < first_head + shape.num_heads; ++head) {
    const Doubles of_head =
        Slices(mask, head * shape_.sequence + begin, shape.sequence, shape_.sequence, begin, end);
    own_mask.insert(own_mask.end(), of_head.begin(), of_head.end());
  }
  const auto own = reference::Attention(shape, own_q, own_k, own_v, own_mask);
  const Doubles own_dout = rows(dout, shape.QueryWidth());
  const auto own_grads =
      reference::AttentionBackward(shape, own_dout, own_q, own_k, own_v, own_mask);
  const auto put = [&](const Doubles& from, int64_t width, Doubles& to) {
    PutSlices(from, sample, shape_.sequence * width, begin * width, end * width, to);
  };
  put(own.out, shape.QueryWidth(), result.out);
  put(own_grads.dq, shape.QueryWidth(), grads.dq);
  put(SoftmaxCorrection(shape, own_q, own_k, own_dout, own.out), shape.QueryWidth(),
      subtracted_from_dq_);
  put(own_grads.dk, shape.KeyWidth(), grads.dk);
  put(own_grads.dv, shape.KeyWidth(), grads.dv);
  PutSlices(own.log_sum_exp, first_head, shape_.sequence, begin, end, result.log_sum_exp);
}

// A draw for every query and key of every head of every sample, counted through.
Doubles WholeAttention::Mask() const {
  if (options_.dropout_probability == 0) return {};
  const int64_t all_heads = shape_.num_heads + kFurtherHeads;
  Doubles mask;
  for (int64_t sample = 0; sample < shape_.batch; ++sample) {
    for (int64_t head = 0; head < shape_.num_heads; ++head) {
      const int64_t before = ((sample + kSamplesBefore) * all_heads + head + kHeadsBefore) *
                             shape_.sequence * shape_.sequence;
      for (int64_t i = 0; i < shape_.sequence * shape_.sequence; ++i) {
        const double draw = base::UniformAt(kDropoutKey, static_cast<uint64_t>(before + i));
        const double probability = options_.dropout_probability;
        mask.push_back(draw < probability ? 0 : 1 / (1 - probability));
      }
    }
  }
  return mask;
}

base::TokenPositions WholeAttention::PositionsOf(int rank) const {
  return {.num_early = chunk(),
          .early_shift = rank * chunk(),
          .late_shift = (2 * num_ranks_ - 2 - rank) * chunk()};
}

AttentionDropout WholeAttention::Dropout(const base::TokenPositions& queries,
                                         const base::TokenPositions& keys) const {
  return {.probability = options_.dropout_probability,
          .key = kDropoutKey,
          .first_sample = kSamplesBefore,
          .first_head = kHeadsBefore,
          .num_heads = shape_.num_heads + kFurtherHeads,
          .sequence = shape_.sequence,
          .queries = queries,
          .keys = keys};
}

Doubles WholeAttention::RowsOf(int rank, const Doubles& matrix, int64_t width) const {
  Doubles rows;
  for (int64_t sample = 0; sample < shape_.batch; ++sample) {
    for (const int64_t index : {int64_t{rank}, int64_t{2} * num_ranks_ - 1 - rank}) {
      const auto begin = matrix.begin() + (sample * shape_.sequence + index * chunk()) * width;
      rows.insert(rows.end(), begin, begin + chunk() * width);
    }
  }
  return rows;
}

Doubles WholeAttention::SubtractedFromDq(int rank) const {
  if (subtracted_from_dq_.empty()) return {};
  return RowsOf(rank, subtracted_from_dq_, shape_.QueryWidth());
}

Doubles WholeAttention::StatsOf(int rank, const Doubles& stats) const {
  Doubles rows;
  for (int64_t head = 0; head < shape_.batch * shape_.num_heads; ++head) {
    for (const int64_t index : {int64_t{rank}, int64_t{2} * num_ranks_ - 1 - rank}) {
      const auto begin = stats.begin() + head * shape_.sequence + index * chunk();
      rows.insert(rows.end(), begin, begin + chunk());
    }
  }
  return rows;
}

Doubles WholeAttention::KeysAndValues(const Doubles& keys, const Doubles& values) const {
  Doubles both;
  const int64_t width = shape_.KeyWidth();
  for (int64_t row = 0; row < shape_.NumRows(); ++row) {
    for (const Doubles* part : {&keys, &values}) {
      both.insert(both.end(), part->begin() + row * width, part->begin() + (row + 1) * width);
    }
  }
  return both;
}

}  // namespace tessera::kernels::testing
