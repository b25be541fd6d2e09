// Training samples by number. Sample i is the same for every layout and every rank: global batch k
// (from 0) of size B is samples [k * B, (k + 1) * B).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tessera::engine {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // Writes sequence_length + 1 tokens: inputs are the first sequence_length, labels the last
  // sequence_length. May be called from several threads at once. Ids are not checked: that is what
  // max_token() is for.
  virtual void Read(int64_t sample, int32_t* tokens) const = 0;
  virtual int64_t sequence_length() const = 0;
  // Samples of one pass: floor((tokens - 1) / sequence_length), where shuffled data counts the
  // tokens of all the epochs it is laid out for. Sequential data gives sample i % num_samples() for
  // any i; shuffled data has no sample past the last.
  virtual int64_t num_samples() const = 0;
  // Highest token id of the data, for a check against the vocabulary. The first call reads every
  // token once, on several threads where there are many. Throws base::ConfigError, with file and
  // byte, for an id that is negative or above 2^31 - 1.
  virtual int32_t max_token() const = 0;
};

enum class DataFormat : uint8_t { kAuto, kIndexed, kRawU8, kRawU16, kRawI32, kLlmC };
enum class DataOrder : uint8_t { kShuffled, kSequential };

struct DataOptions {
  std::string path;  // a token file; for kIndexed the prefix, or either file of the pair
  DataFormat format = DataFormat::kAuto;  // by name and magic number
  DataOrder order = DataOrder::kShuffled;
  int64_t sequence_length = 0;
  // That the run will read: shuffled data is laid out for this many, in whole epochs; 0 is one
  // epoch.
  int64_t num_samples = 0;
  uint64_t seed = 1234;  // of shuffled data: below 2^32, as numpy has it
};

// Shuffled order is that of Megatron-LM's GPTDataset with all data as its training split (see
// sample_index.h); a raw file is one document. Sequential order joins the documents of a .bin file.
// Throws base::ConfigError for a file that is missing, empty, truncated, of another format, or too
// short for one sample.
std::unique_ptr<SampleSource> OpenSampleSource(const DataOptions& options);

}  // namespace tessera::engine
