// What to train with: batch, sequence, precision, optimizer. Independent of the layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cost_model/base/dtype.h"

namespace tessera::spec {

enum class Precision : uint8_t { kFp32, kBf16, kFp16, kFp8, kFp4 };
// kWsd: warm-up, stable, decay (Hu et al. 2024, arXiv:2404.06395).
enum class LrDecayStyle : uint8_t { kConstant, kLinear, kCosine, kInverseSquareRoot, kWsd };
enum class WsdDecayStyle : uint8_t { kLinear, kCosine, kExponential, kMinusSqrt };
enum class WeightDecayStyle : uint8_t { kConstant, kLinear, kCosine };

std::string_view ToString(Precision precision);  // "fp32", "bf16", "fp16", "fp8", "fp4"
// "constant", "linear", "cosine", "inverse-square-root", "wsd"
std::string_view ToString(LrDecayStyle style);
std::string_view ToString(WsdDecayStyle style);  // "linear", "cosine", "exponential", "minus-sqrt"
std::string_view ToString(WeightDecayStyle style);  // "constant", "linear", "cosine"
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

// Schedules of learning rate and weight decay: see training_schedule.h.
struct OptimizerSpec {
  double lr = 3e-4;
  double min_lr = 0;
  double lr_warmup_init = 0;  // where the warm-up begins
  int64_t lr_warmup_steps = 0;
  int64_t lr_decay_steps = 0;  // 0: the number of training steps
  LrDecayStyle lr_decay_style = LrDecayStyle::kCosine;
  // Of kWsd: the last of the lr_decay_steps, in which it decays.
  int64_t lr_wsd_decay_steps = 0;
  WsdDecayStyle lr_wsd_decay_style = WsdDecayStyle::kExponential;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.95;
  double adam_eps = 1e-8;
  double weight_decay = 0.1;      // of matrices; biases and norms have none
  double end_weight_decay = 0.1;  // where it goes to, unless the style is constant
  WeightDecayStyle weight_decay_style = WeightDecayStyle::kConstant;
  bool decay_embeddings = true;  // as other matrices
  double clip_grad = 1.0;        // 0: no clipping
  bool operator==(const OptimizerSpec&) const = default;
};

// A global batch that grows from a smaller one, as Megatron-LM's --rampup-batch-size says it: by
// equal increments, after equal numbers of samples.
struct BatchRamp {
  int64_t start_batch_size = 1;
  int64_t increment = 1;
  int64_t samples = 1;  // after which the batch is whole
  bool operator==(const BatchRamp&) const = default;
};

// Shares of what dropout zeroes in training, each in [0, 1). Masks are drawn by counter
// (base/philox.h): they depend on seed, step, sample, layer and element alone, and the backward
// pass draws them again instead of keeping them.
struct DropoutSpec {
  double hidden = 0;     // of what attention and MLP, or experts, add to the residual stream
  double attention = 0;  // of the probabilities of attention
  double embedding = 0;  // of the embeddings, positions included
  bool operator==(const DropoutSpec&) const = default;
};

struct TrainingSpec {
  int64_t global_batch_size = 1;  // samples of one optimizer step
  int64_t sequence_length = 0;    // tokens of one sample
  int64_t steps = 100;
  std::optional<BatchRamp> batch_ramp;  // up to global_batch_size
  Precision precision = Precision::kBf16;
  uint64_t seed = 1234;
  int64_t eod_token = -1;      // that ends a document; -1: not known
  bool eod_mask_loss = false;  // what follows an eod_token is not learned: the next document
  // Behind an eod_token positions count from 0 again, and attention sees nothing up to it.
  bool reset_position_ids = false, reset_attention_mask = false;
  OptimizerSpec optimizer;
  DropoutSpec dropout;
  bool operator==(const TrainingSpec&) const = default;
};

}  // namespace tessera::spec
