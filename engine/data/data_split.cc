#include "engine/data/data_split.h"

#include <charconv>
#include <cmath>
#include <string>

#include "cost_model/base/error.h"
#include "engine/data/numpy_sum.h"

namespace tessera::engine {
namespace {

[[noreturn]] void ThrowNoSplit(std::string_view text) {
  throw base::ConfigError("split", "", base::Concat('"', text, '"'),
                          "up to three numbers from 0, not all 0: training, validation, test, as "
                          "98,1,1");
}

// Takes the next number off `rest`, and the comma behind it.
double TakeNumber(std::string_view& rest, std::string_view text) {
  const std::string_view word = rest.substr(0, rest.find(','));
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc{} && end == word.data() + word.size();
  if (!is_number || !std::isfinite(value) || value < 0) ThrowNoSplit(text);
  rest.remove_prefix(word.size());
  if (rest == ",") ThrowNoSplit(text);
  if (!rest.empty()) rest.remove_prefix(1);
  return value;
}

}  // namespace

std::string_view ToString(SplitPart part) {
  switch (part) {
    case SplitPart::kTrain:
      return "training";
    case SplitPart::kValidation:
      return "validation";
    case SplitPart::kTest:
      return "test";
  }
  return "?";
}

DataSplit DataSplitFromString(std::string_view text) {
  DataSplit split{.weights = {0, 0, 0}};
  std::string_view rest = text;
  size_t part = 0;
  do {
    if (part == split.weights.size()) ThrowNoSplit(text);
    split.weights[part++] = TakeNumber(rest, text);
  } while (!rest.empty());
  if (NumpySum(split.weights) <= 0) ThrowNoSplit(text);
  return split;
}

SequenceRange RangeOf(const DataSplit& split, SplitPart part, int64_t num_sequences) {
  const double sum = NumpySum(split.weights);
  const auto border = [&](double share) {
    return static_cast<int64_t>(std::nearbyint(share * static_cast<double>(num_sequences)));
  };
  double begin = 0;
  double end = 0;
  for (size_t i = 0; i <= static_cast<size_t>(part); ++i) {
    begin = end;
    end += split.weights[i] / sum;
  }
  const int64_t first = border(begin);
  return {.first = first, .count = border(end) - first};
}

}  // namespace tessera::engine
