#include "engine/layers/rope_frequencies.h"

#include <cmath>
#include <numbers>

namespace tessera::engine {
namespace {

// Frequencies of long wavelengths are divided by `factor`, short ones kept, those between blended.
double Stretch(double frequency, const spec::RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(scaling.original_max_sequence_length);
  if (wavelength < original / scaling.high_freq_factor) return frequency;
  if (wavelength > original / scaling.low_freq_factor) return frequency / scaling.factor;
  const double smooth = (original / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<double> InverseRopeFrequencies(const spec::ModelSpec& model) {
  std::vector<double> frequencies;
  if (model.position != spec::PositionKind::kRope) return frequencies;
  for (int64_t i = 0; i < model.head_dim / 2; ++i) {
    double frequency = std::pow(
        model.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(model.head_dim));
    if (model.rope_scaling) frequency = Stretch(frequency, *model.rope_scaling);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace tessera::engine
