#include "engine/data/sample_source.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/data/blended_source.h"
#include "engine/data/data_format.h"
#include "engine/data/sample_index.h"
#include "engine/data/token_store.h"

namespace tessera::engine {
namespace {

class StoreSampleSource final : public SampleSource {
 public:
  // The index numbers the sequences of the range from 0.
  StoreSampleSource(std::unique_ptr<TokenStore> store, SequenceRange range, SampleIndex index)
      : store_(std::move(store)), range_(range), index_(std::move(index)) {}

  void Read(int64_t sample, int32_t* tokens) const override {
    SampleStart start = index_.StartOf(PositionOf(sample));
    int64_t missing = index_.sequence_length + 1;
    while (missing > 0) {
      const auto sequence = index_.document_index[static_cast<size_t>(start.place)];
      const TokenView view = store_->Sequence(range_.first + sequence);
      const int64_t count = std::min(missing, view.num_tokens - start.offset);
      CopyTokens(view, start.offset, count, tokens);
      tokens += count;
      missing -= count;
      start = {.place = start.place + 1, .offset = 0};
    }
  }

  int64_t sequence_length() const override { return index_.sequence_length; }
  int64_t num_samples() const override { return index_.num_samples; }

  int32_t max_token() const override {
    std::call_once(max_token_once_, [this] { max_token_ = FindMaxToken(*store_, range_); });
    return max_token_;
  }

 private:
  // Which sample of the laid out tokens the run's sample is.
  int64_t PositionOf(int64_t sample) const {
    TESSERA_CHECK(sample >= 0, "sample ", sample);
    if (index_.shuffle_index.empty()) return sample % index_.num_samples;
    TESSERA_CHECK(sample < index_.num_samples, "sample ", sample, " of data laid out for ",
                  index_.num_samples);
    return index_.shuffle_index[static_cast<size_t>(sample)];
  }

  std::unique_ptr<TokenStore> store_;
  SequenceRange range_;
  SampleIndex index_;
  mutable std::once_flag max_token_once_;
  mutable int32_t max_token_ = -1;
};

std::vector<int64_t> SequenceLengths(const TokenStore& store, SequenceRange range) {
  std::vector<int64_t> lengths;
  lengths.reserve(static_cast<size_t>(range.count));
  for (int64_t i = 0; i < range.count; ++i) {
    lengths.push_back(store.Sequence(range.first + i).num_tokens);
  }
  return lengths;
}

void CheckEnoughTokens(const TokenStore& store, const std::vector<int64_t>& lengths,
                       const DataOptions& options) {
  int64_t tokens = 0;
  for (const int64_t length : lengths) tokens += length;
  if (tokens > options.sequence_length) return;
  const auto num_sequences = static_cast<int64_t>(lengths.size());
  const std::string of_part =
      num_sequences == store.num_sequences()
          ? ""
          : base::Concat(" in the ", num_sequences, " of ", store.num_sequences(),
                         " documents of the ", ToString(options.part), " part");
  throw base::ConfigError(
      store.token_bytes().path(), "", base::Concat(tokens, " tokens", of_part),
      base::Concat("at least ", options.sequence_length + 1, ", one sample of sequence length ",
                   options.sequence_length, " and its last label"));
}

uint32_t NumpySeed(uint64_t seed) {
  if (seed > std::numeric_limits<uint32_t>::max()) {
    throw base::ConfigError("seed of shuffled data", "", base::Concat(seed), "0 to 4294967295");
  }
  return static_cast<uint32_t>(seed);
}

void CheckVocabulary(const SampleSource& source, const DataOptions& options) {
  if (options.vocab_size == 0 || source.max_token() < options.vocab_size) return;
  throw base::ConfigError(options.path, "", base::Concat("token id ", source.max_token()),
                          base::Concat("ids below the model's vocabulary of ", options.vocab_size));
}

}  // namespace

std::unique_ptr<SampleSource> OpenSampleSource(const DataOptions& options) {
  if (options.sequence_length < 1) {
    throw base::ConfigError("sequence length", "", base::Concat(options.sequence_length),
                            "1 or more");
  }
  if (!options.blend.empty()) return OpenBlendedSource(options);
  std::unique_ptr<TokenStore> store = OpenTokenStore(options.path, options.format);
  const SequenceRange range = RangeOf(options.split, options.part, store->num_sequences());
  const std::vector<int64_t> lengths = SequenceLengths(*store, range);
  CheckEnoughTokens(*store, lengths, options);
  SampleIndex index = options.order == DataOrder::kSequential
                          ? MakeSequentialIndex(lengths, options.sequence_length)
                          : MakeShuffledIndex(lengths, options.sequence_length,
                                              {.num_samples = options.num_samples,
                                               .seed = NumpySeed(options.seed)});
  auto source = std::make_unique<StoreSampleSource>(std::move(store), range, std::move(index));
  CheckVocabulary(*source, options);
  return source;
}

}  // namespace tessera::engine
