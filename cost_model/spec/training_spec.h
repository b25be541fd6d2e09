// What to train with: batch, sequence, precision, optimizer. Independent of the layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cost_model/base/dtype.h"

namespace tessera::spec {

enum class Precision : uint8_t { kFp32, kBf16, kFp16, kFp8, kFp4 };
enum class LrDecayStyle : uint8_t { kConstant, kLinear, kCosine };

std::string_view ToString(Precision precision);  // "fp32", "bf16", "fp16", "fp8", "fp4"
std::string_view ToString(LrDecayStyle style);   // "constant", "linear", "cosine"
std::optional<Precision> PrecisionFromString(std::string_view text);

// Storage of the training state. Mixed precision keeps fp32 gradients and fp32 master weights.
struct PrecisionTypes {
  base::DType parameter;
  base::DType activation;
  base::DType gradient;
  base::DType matmul;       // input type of the matrix products: which peak applies
  bool has_master_weights;  // a further fp32 copy in the optimizer state
};
constexpr PrecisionTypes TypesOf(Precision precision) {
  using base::DType;
  PrecisionTypes types{.parameter = DType::kFloat32,
                       .activation = DType::kFloat32,
                       .gradient = DType::kFloat32,
                       .matmul = DType::kFloat32,
                       .has_master_weights = false};
  switch (precision) {
    case Precision::kFp32:
      return types;
    case Precision::kBf16:
      types.parameter = types.activation = types.matmul = DType::kBFloat16;
      break;
    case Precision::kFp16:
      types.parameter = types.activation = types.matmul = DType::kFloat16;
      break;
    case Precision::kFp8:
    case Precision::kFp4:
      // Only the operands of matrix products are cast to 8 or 4 bits, on the fly.
      types.parameter = types.activation = DType::kBFloat16;
      types.matmul = precision == Precision::kFp8 ? DType::kFloat8 : DType::kFloat4;
      break;
  }
  types.has_master_weights = true;
  return types;
}

struct OptimizerSpec {
  double lr = 3e-4;
  double min_lr = 0;
  int64_t lr_warmup_steps = 0;
  int64_t lr_decay_steps = 0;  // 0: the number of training steps
  LrDecayStyle lr_decay_style = LrDecayStyle::kCosine;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.95;
  double adam_eps = 1e-8;
  double weight_decay = 0.1;
  double clip_grad = 1.0;  // 0: no clipping
  bool operator==(const OptimizerSpec&) const = default;
};

// Learning rate of step `step` (from 1) of `num_steps`: linear warm-up lr * step / warmup, then
// constant, linear or cosine from lr at `warmup` to min_lr at lr_decay_steps, min_lr after.
double LearningRate(const OptimizerSpec& optimizer, int64_t step, int64_t num_steps);

struct TrainingSpec {
  int64_t global_batch_size = 1;  // samples of one optimizer step
  int64_t sequence_length = 0;    // tokens of one sample
  int64_t steps = 100;
  Precision precision = Precision::kBf16;
  uint64_t seed = 1234;
  OptimizerSpec optimizer;
  bool operator==(const TrainingSpec&) const = default;
};

}  // namespace tessera::spec
