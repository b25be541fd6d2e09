#include "engine/data/sample_source.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/data/data_format.h"
#include "engine/data/sample_index.h"
#include "engine/data/token_store.h"

namespace tessera::engine {
namespace {

class StoreSampleSource final : public SampleSource {
 public:
  StoreSampleSource(std::unique_ptr<TokenStore> store, SampleIndex index)
      : store_(std::move(store)), index_(std::move(index)) {}

  void Read(int64_t sample, int32_t* tokens) const override {
    SampleStart start = index_.StartOf(PositionOf(sample));
    int64_t missing = index_.sequence_length + 1;
    while (missing > 0) {
      const auto sequence = index_.document_index[static_cast<size_t>(start.place)];
      const TokenView view = store_->Sequence(sequence);
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
    std::call_once(max_token_once_, [this] { max_token_ = FindMaxToken(*store_); });
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
  SampleIndex index_;
  mutable std::once_flag max_token_once_;
  mutable int32_t max_token_ = -1;
};

std::vector<int64_t> SequenceLengths(const TokenStore& store) {
  std::vector<int64_t> lengths;
  lengths.reserve(static_cast<size_t>(store.num_sequences()));
  for (int64_t i = 0; i < store.num_sequences(); ++i) {
    lengths.push_back(store.Sequence(i).num_tokens);
  }
  return lengths;
}

void CheckEnoughTokens(const TokenStore& store, const std::vector<int64_t>& lengths,
                       int64_t sequence_length) {
  int64_t tokens = 0;
  for (const int64_t length : lengths) tokens += length;
  if (tokens > sequence_length) return;
  throw base::ConfigError(
      store.token_bytes().path(), "", base::Concat(tokens, " tokens"),
      base::Concat("at least ", sequence_length + 1, ", one sample of sequence length ",
                   sequence_length, " and its last label"));
}

uint32_t NumpySeed(uint64_t seed) {
  if (seed > std::numeric_limits<uint32_t>::max()) {
    throw base::ConfigError("seed of shuffled data", "", base::Concat(seed), "0 to 4294967295");
  }
  return static_cast<uint32_t>(seed);
}

}  // namespace

std::unique_ptr<SampleSource> OpenSampleSource(const DataOptions& options) {
  if (options.sequence_length < 1) {
    throw base::ConfigError("sequence length", "", base::Concat(options.sequence_length),
                            "1 or more");
  }
  std::unique_ptr<TokenStore> store = OpenTokenStore(options.path, options.format);
  const std::vector<int64_t> lengths = SequenceLengths(*store);
  CheckEnoughTokens(*store, lengths, options.sequence_length);
  SampleIndex index = options.order == DataOrder::kSequential
                          ? MakeSequentialIndex(lengths, options.sequence_length)
                          : MakeShuffledIndex(lengths, options.sequence_length,
                                              {.num_samples = options.num_samples,
                                               .seed = NumpySeed(options.seed)});
  return std::make_unique<StoreSampleSource>(std::move(store), std::move(index));
}

}  // namespace tessera::engine
