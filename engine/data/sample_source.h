// Training samples by number. Sample i is the same for every layout and every rank: global batch k
// (from 0) of size B is samples [k * B, (k + 1) * B).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/data_blend.h"
#include "engine/data/data_split.h"

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
  // any i; shuffled or blended data has no sample past the last.
  virtual int64_t num_samples() const = 0;
  // Highest token id of the data. The first call reads every token once, on several threads where
  // there are many. Throws base::ConfigError, with file and byte, for an id that is negative or
  // above 2^31 - 1.
  virtual int32_t max_token() const = 0;
};

enum class DataFormat : uint8_t { kAuto, kIndexed, kRawU8, kRawU16, kRawI32, kLlmC };
enum class DataOrder : uint8_t { kShuffled, kSequential };

struct DataOptions {
  std::string path;  // a token file; for kIndexed the prefix, or either file of the pair
  std::vector<BlendPart> blend = {};      // several of them instead of `path`
  DataSplit split = {};                   // of each of them
  SplitPart part = SplitPart::kTrain;     // which is read
  DataFormat format = DataFormat::kAuto;  // by name and magic number
  DataOrder order = DataOrder::kShuffled;
  int64_t sequence_length = 0;
  // That the run will read: shuffled data is laid out for this many, in whole epochs; 0 is one
  // epoch.
  int64_t num_samples = 0;
  uint64_t seed = 1234;    // of shuffled data: below 2^32, as numpy has it
  int64_t vocab_size = 0;  // ids from here on are refused, for which every token is read; 0: none
};

// Shuffled order is that of Megatron-LM's GPTDataset (see sample_index.h), and of its
// BlendedDataset for a blend (see data_blend.h); a raw file is one document. Sequential order joins
// the documents of a .bin file. Data sets without weights are read once, each in proportion to its
// samples; weights repeat what is too short for its share.
// Throws base::ConfigError for a file that is missing, empty, truncated or of another format, for a
// part too short for one sample, for ids past the vocabulary, and for more samples than data
// without weights hold. REQUIRES: num_samples above 0 for a blend with weights.
std::unique_ptr<SampleSource> OpenSampleSource(const DataOptions& options);

}  // namespace tessera::engine
