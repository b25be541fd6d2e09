// Several data sets read as one, each in its share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::engine {

// One data set of a blend. Weights matter beside each other only; where all are 0, a data set
// counts by its samples.
struct BlendPart {
  std::string path;
  double weight = 0;
  bool operator==(const BlendPart&) const = default;
};

// The words of `--data`: a path; paths; or weights and paths in turn, as Megatron-LM takes them
// ("0.7 a 0.3 b"). Throws base::ConfigError for weights that some paths lack or that are not above
// 0. REQUIRES: at least one word.
std::vector<BlendPart> BlendFromWords(const std::vector<std::string>& words);

// The words again, for messages.
std::string ToString(std::span<const BlendPart> blend);

// Sample i of a blend is sample sample[i] of data set data_set[i]. 6 bytes a sample.
struct BlendIndex {
  std::vector<uint16_t> data_set;
  std::vector<uint32_t> sample;
};

// Weights to shares of 1, as Megatron-LM has it: twice divided by numpy's sum.
std::vector<double> BlendShares(std::span<const double> weights);

// Samples that a data set of this share must hold for a blend of `num_samples`: 0.5 % more than its
// share, as Megatron-LM lays it out, on which the order of its own samples depends.
int64_t BlendSamplesOf(double share, int64_t num_samples);

// Megatron-LM's order: sample n comes from the data set that lacks most, the one with the largest
// share * max(n, 1) - (samples taken from it); the first of equals.
// Source: Megatron-LM, megatron/core/datasets/helpers.cpp, build_blending_indices.
// REQUIRES: 1 to 32767 shares.
BlendIndex MakeBlendIndex(std::span<const double> shares, int64_t num_samples);

}  // namespace tessera::engine
