#include "cost_model/spec/training_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera::spec {
namespace {

// 1 at the start, 0 at the end.
double HalfCosine(double share) { return 0.5 * (1 + std::cos(std::numbers::pi * share)); }

// What is left of lr - min_lr once a share of the decay has passed.
double WsdRest(WsdDecayStyle style, double share) {
  switch (style) {
    case WsdDecayStyle::kLinear:
      return 1 - share;
    case WsdDecayStyle::kCosine:
      return HalfCosine(share);
    case WsdDecayStyle::kExponential:
      return 2 * std::pow(0.5, share) - 1;
    case WsdDecayStyle::kMinusSqrt:
      return 1 - std::sqrt(share);
  }
  return 0;
}

}  // namespace

int64_t BatchSizeAt(const TrainingSpec& training, int64_t consumed_samples) {
  const int64_t whole = training.global_batch_size;
  if (!training.batch_ramp) return whole;
  const BatchRamp& ramp = *training.batch_ramp;
  if (consumed_samples >= ramp.samples || ramp.start_batch_size >= whole) return whole;
  const auto num_increments = static_cast<double>((whole - ramp.start_batch_size) / ramp.increment);
  const double samples_per_increment = static_cast<double>(ramp.samples) / num_increments;
  const auto increments =
      static_cast<int64_t>(static_cast<double>(consumed_samples) / samples_per_increment);
  return std::min(whole, ramp.start_batch_size + increments * ramp.increment);
}

int64_t SamplesOfSteps(const TrainingSpec& training, int64_t consumed_samples, int64_t num_steps) {
  int64_t consumed = consumed_samples;
  const int64_t ramp_samples = training.batch_ramp ? training.batch_ramp->samples : 0;
  while (num_steps > 0 && consumed < ramp_samples) {
    consumed += BatchSizeAt(training, consumed);
    --num_steps;
  }
  return consumed - consumed_samples + std::max<int64_t>(0, num_steps) * training.global_batch_size;
}

int64_t StepsOfSamples(const TrainingSpec& training, int64_t num_samples) {
  int64_t steps = 0;
  int64_t consumed = 0;
  const int64_t ramp_samples = training.batch_ramp ? training.batch_ramp->samples : 0;
  while (consumed < ramp_samples) {
    const int64_t batch = BatchSizeAt(training, consumed);
    if (consumed + batch > num_samples) return steps;
    consumed += batch;
    ++steps;
  }
  return steps + std::max<int64_t>(0, num_samples - consumed) / training.global_batch_size;
}

double ScheduleStep(const TrainingSpec& training, int64_t step, int64_t consumed_samples) {
  if (!training.batch_ramp) return static_cast<double>(step);
  return static_cast<double>(consumed_samples) / static_cast<double>(training.global_batch_size);
}

double ScheduleLength(const TrainingSpec& training) {
  return ScheduleStep(training, training.steps, SamplesOfSteps(training, 0, training.steps));
}

double LearningRate(const OptimizerSpec& optimizer, double step, double num_steps) {
  const double lr = optimizer.lr;
  const double min_lr = optimizer.min_lr;
  const auto warmup = static_cast<double>(optimizer.lr_warmup_steps);
  if (step <= warmup) {
    return optimizer.lr_warmup_init + (lr - optimizer.lr_warmup_init) * step / warmup;
  }
  const double end =
      optimizer.lr_decay_steps > 0 ? static_cast<double>(optimizer.lr_decay_steps) : num_steps;
  if (optimizer.lr_decay_style == LrDecayStyle::kConstant) return lr;
  if (step > end) return min_lr;
  const double share = (step - warmup) / (end - warmup);  // 0 < share <= 1
  double rest = 1;                                        // of lr - min_lr
  switch (optimizer.lr_decay_style) {
    case LrDecayStyle::kConstant:
      break;
    case LrDecayStyle::kLinear:
      rest = 1 - share;
      break;
    case LrDecayStyle::kCosine:
      rest = HalfCosine(share);
      break;
    case LrDecayStyle::kInverseSquareRoot:
      return std::max(min_lr, lr * std::sqrt(std::max(warmup, 1.0) / std::max(step, 1.0)));
    case LrDecayStyle::kWsd: {
      const auto decay_steps = static_cast<double>(optimizer.lr_wsd_decay_steps);
      const double begin = end - decay_steps;
      if (step > begin) rest = WsdRest(optimizer.lr_wsd_decay_style, (step - begin) / decay_steps);
      break;
    }
  }
  return min_lr + rest * (lr - min_lr);
}

double WeightDecay(const OptimizerSpec& optimizer, double step, double num_steps) {
  const double start = optimizer.weight_decay;
  if (optimizer.weight_decay_style == WeightDecayStyle::kConstant) return start;
  if (step >= num_steps) return optimizer.end_weight_decay;
  const double share = step / num_steps;
  const double passed =
      optimizer.weight_decay_style == WeightDecayStyle::kLinear ? share : 1 - HalfCosine(share);
  return start + passed * (optimizer.end_weight_decay - start);
}

}  // namespace tessera::spec
