#include "engine/data/sample_index.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "cost_model/base/error.h"
#include "cost_model/base/math.h"
#include "engine/data/numpy_random.h"

namespace tessera::engine {
namespace {

// From here on Megatron-LM stores 64-bit indices.
constexpr int64_t kMaxEntries = int64_t{std::numeric_limits<uint32_t>::max()} - 2;

// Below this share of its samples the final epoch is kept apart.
constexpr double kSeparateEpochShare = 0.80;

int64_t CountTokens(std::span<const int64_t> sequence_lengths, int64_t sequence_length) {
  const int64_t tokens =
      std::accumulate(sequence_lengths.begin(), sequence_lengths.end(), int64_t{0});
  TESSERA_CHECK(sequence_length > 0 && tokens > sequence_length, tokens,
                " tokens, sequence length ", sequence_length);
  return tokens;
}

[[noreturn]] void ThrowTooMany(int64_t num_samples, const std::string& what) {
  throw base::ConfigError("shuffled data", "", base::Concat(num_samples, " samples, ", what),
                          base::Concat("fewer than ", kMaxEntries, " (train in parts)"));
}

// The fewest epochs that hold num_samples * s + 1 tokens.
int64_t CountEpochs(int64_t num_samples, int64_t sequence_length, int64_t tokens_per_epoch) {
  int64_t needed = 0;
  if (__builtin_mul_overflow(num_samples, sequence_length, &needed) ||
      needed > std::numeric_limits<int64_t>::max() - tokens_per_epoch) {
    ThrowTooMany(num_samples, "more than 2^63 tokens");
  }
  return base::CeilDiv(needed + 1, tokens_per_epoch);
}

void AppendEpochs(int64_t num_epochs, uint32_t num_sequences, NumpyRandomState& random,
                  std::vector<uint32_t>& document_index) {
  const size_t begin = document_index.size();
  for (int64_t epoch = 0; epoch < num_epochs; ++epoch) {
    for (uint32_t sequence = 0; sequence < num_sequences; ++sequence) {
      document_index.push_back(sequence);
    }
  }
  random.Shuffle(std::span(document_index).subspan(begin));
}

void FillFirstTokens(std::span<const int64_t> sequence_lengths, SampleIndex& index) {
  index.first_token.reserve(index.document_index.size() + 1);
  int64_t first = 0;
  index.first_token.push_back(first);
  for (const uint32_t sequence : index.document_index) {
    first += sequence_lengths[sequence];
    index.first_token.push_back(first);
  }
  index.num_samples = (first - 1) / index.sequence_length;
}

}  // namespace

SampleStart SampleIndex::StartOf(int64_t k) const {
  TESSERA_CHECK(k >= 0 && k <= num_samples, "sample ", k, " of ", num_samples);
  const int64_t token = k * sequence_length;
  const auto next = std::upper_bound(first_token.begin(), first_token.end(), token);
  const int64_t place = next - first_token.begin() - 1;
  return {.place = place, .offset = token - first_token[static_cast<size_t>(place)]};
}

SampleIndex MakeSequentialIndex(std::span<const int64_t> sequence_lengths,
                                int64_t sequence_length) {
  CountTokens(sequence_lengths, sequence_length);
  TESSERA_CHECK(static_cast<int64_t>(sequence_lengths.size()) <= kMaxEntries,
                sequence_lengths.size(), " sequences");
  SampleIndex index;
  index.sequence_length = sequence_length;
  index.document_index.resize(sequence_lengths.size());
  std::iota(index.document_index.begin(), index.document_index.end(), 0u);
  FillFirstTokens(sequence_lengths, index);
  return index;
}

SampleIndex MakeShuffledIndex(std::span<const int64_t> sequence_lengths, int64_t sequence_length,
                              const ShuffleOptions& options) {
  TESSERA_CHECK(options.num_samples >= 0, options.num_samples, " samples");
  const int64_t tokens_per_epoch = CountTokens(sequence_lengths, sequence_length);
  const int64_t samples_per_epoch = (tokens_per_epoch - 1) / sequence_length;
  const int64_t wanted = options.num_samples == 0 ? samples_per_epoch : options.num_samples;
  SampleIndex index;
  index.sequence_length = sequence_length;
  index.num_epochs = CountEpochs(wanted, sequence_length, tokens_per_epoch);
  const auto num_sequences = static_cast<int64_t>(sequence_lengths.size());
  if (index.num_epochs > kMaxEntries / num_sequences) {
    ThrowTooMany(wanted,
                 base::Concat(index.num_epochs, " epochs of ", num_sequences, " sequences"));
  }
  const int64_t total = (index.num_epochs * tokens_per_epoch - 1) / sequence_length;
  if (total >= kMaxEntries) ThrowTooMany(wanted, base::Concat(total, " in whole epochs"));

  // Samples that start in the epochs before the final one.
  const int64_t before_final = ((index.num_epochs - 1) * tokens_per_epoch - 1) / sequence_length;
  if (index.num_epochs > 1) {
    const auto enough =
        static_cast<int64_t>(kSeparateEpochShare * static_cast<double>(samples_per_epoch));
    index.separate_final_epoch = wanted - before_final < enough;
  }

  NumpyRandomState random(options.seed);
  index.document_index.reserve(static_cast<size_t>(index.num_epochs * num_sequences));
  const int64_t final_epochs = index.separate_final_epoch ? 1 : 0;
  AppendEpochs(index.num_epochs - final_epochs, static_cast<uint32_t>(num_sequences), random,
               index.document_index);
  AppendEpochs(final_epochs, static_cast<uint32_t>(num_sequences), random, index.document_index);
  FillFirstTokens(sequence_lengths, index);

  index.shuffle_index.resize(static_cast<size_t>(index.num_samples));
  std::iota(index.shuffle_index.begin(), index.shuffle_index.end(), 0u);
  const std::span<uint32_t> shuffle(index.shuffle_index);
  const auto split = static_cast<size_t>(index.separate_final_epoch ? before_final : total);
  random.Shuffle(shuffle.first(split));
  random.Shuffle(shuffle.subspan(split));
  return index;
}

}  // namespace tessera::engine
