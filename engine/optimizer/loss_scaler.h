// Dynamic loss scaling of fp16: gradients are of a multiple of the loss, so that small ones do not
// round to zero. Micikevicius et al. 2018, arXiv:1710.03740, section 3.2.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cost_model/spec/training_spec.h"

namespace tessera::engine {

// What a run that goes on must know of it.
struct LossScale {
  double value = 0;            // 0: nothing is scaled
  int64_t num_good_steps = 0;  // since the value last changed
  bool operator==(const LossScale&) const = default;
};

class LossScaler {
 public:
  // Scales fp16 alone; the range of bf16 is that of fp32.
  explicit LossScaler(spec::Precision precision)
      : is_active_(precision == spec::Precision::kFp16), scale_(is_active_ ? kFirstScale : 1) {}

  bool is_active() const { return is_active_; }
  double scale() const { return scale_; }
  LossScale state() const {
    return is_active_ ? LossScale{.value = scale_, .num_good_steps = num_good_steps_} : LossScale{};
  }
  // Goes on from a saved state; from the first scale where the saved run scaled nothing.
  void Restore(const LossScale& saved) {
    if (!is_active_ || saved.value == 0) return;
    scale_ = saved.value;
    num_good_steps_ = saved.num_good_steps;
  }
  // Whether a step whose gradients are not finite can be skipped and tried with a smaller scale.
  bool can_back_off() const { return is_active_ && scale_ > kSmallestScale; }

  void OnSkippedStep() {
    scale_ = std::max(kSmallestScale, scale_ / 2);
    num_good_steps_ = 0;
  }
  void OnGoodStep() {
    if (!is_active_ || ++num_good_steps_ < kStepsUntilGrowth) return;
    scale_ *= 2;
    num_good_steps_ = 0;
  }

 private:
  static constexpr double kFirstScale = 65536;
  static constexpr double kSmallestScale = 1;
  static constexpr int64_t kStepsUntilGrowth = 1000;

  bool is_active_;
  double scale_;
  int64_t num_good_steps_ = 0;
};

}  // namespace tessera::engine
