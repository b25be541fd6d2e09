#include "cost_model/spec/training_spec.h"

#include <cmath>
#include <numbers>

#include "cost_model/spec/enum_names.h"

namespace tessera::spec {
namespace {

constexpr EnumNames<Precision, 5> kPrecisions = {{{Precision::kFp32, "fp32"},
                                                  {Precision::kBf16, "bf16"},
                                                  {Precision::kFp16, "fp16"},
                                                  {Precision::kFp8, "fp8"},
                                                  {Precision::kFp4, "fp4"}}};
constexpr EnumNames<LrDecayStyle, 3> kLrDecayStyles = {{{LrDecayStyle::kConstant, "constant"},
                                                        {LrDecayStyle::kLinear, "linear"},
                                                        {LrDecayStyle::kCosine, "cosine"}}};

}  // namespace

std::string_view ToString(Precision precision) { return NameOf(kPrecisions, precision); }
std::string_view ToString(LrDecayStyle style) { return NameOf(kLrDecayStyles, style); }

std::optional<Precision> PrecisionFromString(std::string_view text) {
  return ValueOf(kPrecisions, text);
}

double LearningRate(const OptimizerSpec& optimizer, int64_t step, int64_t num_steps) {
  const int64_t warmup = optimizer.lr_warmup_steps;
  if (step <= warmup) {
    return optimizer.lr * static_cast<double>(step) / static_cast<double>(warmup);
  }
  if (optimizer.lr_decay_style == LrDecayStyle::kConstant) return optimizer.lr;
  const int64_t end = optimizer.lr_decay_steps > 0 ? optimizer.lr_decay_steps : num_steps;
  if (step >= end) return optimizer.min_lr;
  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(end - warmup);  // 0 < progress < 1
  const double weight = optimizer.lr_decay_style == LrDecayStyle::kLinear
                            ? 1 - progress
                            : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return optimizer.min_lr + weight * (optimizer.lr - optimizer.min_lr);
}

}  // namespace tessera::spec
