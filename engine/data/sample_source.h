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
  // sequence_length. May be called from several threads at once.
  virtual void Read(int64_t sample, int32_t* tokens) const = 0;
  virtual int64_t sequence_length() const = 0;
  virtual int64_t num_samples() const = 0;
  // Highest token id and its position, for a check against the vocabulary.
  virtual int32_t max_token() const = 0;
};

enum class DataFormat : uint8_t { kAuto, kIndexed, kRawU8, kRawU16, kRawI32, kLlmC };
enum class DataOrder : uint8_t { kShuffled, kSequential };

struct DataOptions {
  std::string path;  // a token file; for kIndexed the prefix, or either file of the pair
  DataFormat format = DataFormat::kAuto;  // by name and magic number
  DataOrder order = DataOrder::kShuffled;
  int64_t sequence_length = 0;
  int64_t num_samples = 0;  // that the run will read: shuffled data is laid out for this many
  uint64_t seed = 1234;
};

// Throws base::ConfigError for a file that is missing, empty, truncated, of another format, or too
// short for one sample. Sequential order past the end of the data starts over.
std::unique_ptr<SampleSource> OpenSampleSource(const DataOptions& options);

}  // namespace tessera::engine
