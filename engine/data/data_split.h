// The training, validation and test parts of a data set.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera::engine {

enum class SplitPart : uint8_t { kTrain, kValidation, kTest };

// "training", "validation", "test".
std::string_view ToString(SplitPart part);

// How large the parts are beside each other, in the order of SplitPart. All data is for training
// unless said otherwise.
struct DataSplit {
  std::array<double, 3> weights = {1, 0, 0};
};

// "98,1,1": up to three numbers, of which those left out are 0. Throws base::ConfigError for other
// text, a negative number, or no number above 0.
DataSplit DataSplitFromString(std::string_view text);

struct SequenceRange {
  int64_t first = 0;
  int64_t count = 0;
};

// The sequences of a part, as Megatron-LM has it: parts follow each other in the order of the file,
// borders lie at the nearest whole sequence (a tie at the even one). May be empty.
// Source: Megatron-LM, megatron/core/datasets/blended_megatron_dataset_config.py and
// blended_megatron_dataset_builder.py.
SequenceRange RangeOf(const DataSplit& split, SplitPart part, int64_t num_sequences);

}  // namespace tessera::engine
