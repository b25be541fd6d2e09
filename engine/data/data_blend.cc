#include "engine/data/data_blend.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "cost_model/base/error.h"
#include "engine/data/numpy_sum.h"

namespace tessera::engine {
namespace {

// Megatron-LM numbers data sets in 16 bits with a sign.
constexpr size_t kMaxDataSets = 32767;

// Megatron-LM's surplus of a blended data set.
constexpr double kSurplus = 0.005;

std::optional<double> ParseNumber(const std::string& word) {
  double value = 0;
  const char* const word_end = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), word_end, value);
  if (error != std::errc{} || end != word_end) return std::nullopt;
  return value;
}

std::vector<double> DividedBySum(std::span<const double> weights) {
  const double sum = NumpySum(weights);
  std::vector<double> shares(weights.begin(), weights.end());
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

std::vector<BlendPart> BlendFromWords(const std::vector<std::string>& words) {
  TESSERA_CHECK(!words.empty(), "no data");
  std::vector<BlendPart> blend;
  const bool has_weights = words.size() % 2 == 0 && ParseNumber(words.front()).has_value();
  if (!has_weights) {
    for (const std::string& word : words) blend.push_back({.path = word});
  }
  for (size_t i = 0; has_weights && i < words.size(); i += 2) {
    const std::optional<double> weight = ParseNumber(words[i]);
    if (!weight || !std::isfinite(*weight) || *weight <= 0) {
      throw base::ConfigError(
          "--data", "", base::Concat('"', words[i], "\" before \"", words[i + 1], '"'),
          "a weight above 0 before every path, or before none, as in 0.7 a 0.3 b");
    }
    blend.push_back({.path = words[i + 1], .weight = *weight});
  }
  if (blend.size() > kMaxDataSets) {
    throw base::ConfigError("--data", "", base::Concat(blend.size(), " data sets"),
                            base::Concat("at most ", kMaxDataSets));
  }
  return blend;
}

std::string ToString(std::span<const BlendPart> blend) {
  std::string text;
  for (const BlendPart& part : blend) {
    if (!text.empty()) text += ' ';
    if (part.weight > 0) text += base::Concat(part.weight, ' ');
    text += part.path;
  }
  return text;
}

std::vector<double> BlendShares(std::span<const double> weights) {
  return DividedBySum(DividedBySum(weights));
}

int64_t BlendSamplesOf(double share, int64_t num_samples) {
  const double samples = std::ceil(static_cast<double>(num_samples) * share);
  return static_cast<int64_t>(std::ceil(samples * (1 + kSurplus)));
}

BlendIndex MakeBlendIndex(std::span<const double> shares, int64_t num_samples) {
  TESSERA_CHECK(!shares.empty() && shares.size() <= kMaxDataSets, shares.size(), " shares");
  BlendIndex index;
  index.data_set.reserve(static_cast<size_t>(num_samples));
  index.sample.reserve(static_cast<size_t>(num_samples));
  std::vector<uint32_t> num_taken(shares.size(), 0);
  for (int64_t n = 0; n < num_samples; ++n) {
    const double so_far = std::max(static_cast<double>(n), 1.0);
    size_t most_lacking = 0;
    double most_lacked = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
      const double lacked = shares[i] * so_far - static_cast<double>(num_taken[i]);
      if (i > 0 && lacked <= most_lacked) continue;
      most_lacking = i;
      most_lacked = lacked;
    }
    index.data_set.push_back(static_cast<uint16_t>(most_lacking));
    index.sample.push_back(num_taken[most_lacking]++);
  }
  return index;
}

}  // namespace tessera::engine
