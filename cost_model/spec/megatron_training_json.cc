#include "cost_model/spec/megatron_training_json.h"

#include <nlohmann/json.hpp>

namespace tessera::spec {
namespace {

using Show = MegatronFields::Show;

void ReadPrecision(MegatronFields& fields, TrainingSpec& training) {
  MegatronArguments& arguments = fields.arguments();
  const std::optional<bool> bf16 = arguments.Flag({"bf16"});
  const std::optional<bool> fp16 = arguments.Flag({"fp16"});
  const bool fp8 = arguments.Given({"fp8", "fp8_format"});
  const bool fp4 = arguments.Given({"fp4", "fp4_format"});
  arguments.Skip({"fp4_recipe", "fp4_param_gather", "fp8_margin", "fp8_interval",
                  "fp8_amax_history_len", "fp8_amax_compute_algo", "fp8_param_gather",
                  "fp8_recipe"});
  if (bf16.value_or(false) && fp16.value_or(false)) {
    arguments.Fail({"fp16"}, "true", "false (bf16 is true)");
  }
  std::optional<Precision> precision;
  if (bf16 || fp16) precision = Precision::kFp32;  // Megatron-LM's, where both are false
  if (bf16.value_or(false)) precision = Precision::kBf16;
  if (fp16.value_or(false)) precision = Precision::kFp16;
  if (fp8) precision = Precision::kFp8;
  if (fp4) precision = Precision::kFp4;
  fields.Set("precision", training.precision, precision, std::optional(Precision::kFp32));
}

void VisitPrecision(MegatronFields& fields, TrainingSpec& training) {
  if (fields.is_reading()) return ReadPrecision(fields, training);
  fields.Section("Precision");
  const Precision precision = training.precision;
  if (precision == Precision::kFp16) fields.Write("fp16");
  const bool fp8 = precision == Precision::kFp8;
  const bool fp4 = precision == Precision::kFp4;
  if (precision == Precision::kBf16 || fp8 || fp4) fields.Write("bf16");
  if (fp4) {
    fields.Write("fp4_format", "e2m1");
    fields.Write("fp4_recipe", "nvfp4");
  }
  if (!fp8) return;
  // Weights and activations stay bf16; operands of products are scaled by their present maximum.
  fields.Write("fp8_format", "hybrid");
  fields.Write("fp8_recipe", "tensorwise");
}

void VisitOptimizer(MegatronFields& fields, OptimizerSpec& optimizer) {
  const NumberRange beta = {.minimum = 0, .maximum = 1};
  const std::optional<double> kept;  // absent: the field as it is
  fields.Section("Optimizer");
  if (fields.is_reading()) {
    fields.arguments().Only("optimizer", "adam", "AdamW");
  } else {
    fields.Write("optimizer", "adam");
  }
  fields.Number("lr", optimizer.lr, {"lr"}, kept, kNotNegative);
  fields.Number("min_lr", optimizer.min_lr, {"min_lr"}, kept, kNotNegative);
  fields.Integer("lr_warmup_steps", optimizer.lr_warmup_steps, {"lr_warmup_iters"}, std::nullopt,
                 kCountRange);
  if (optimizer.lr_decay_steps > 0 || fields.is_reading()) {
    fields.Integer("lr_decay_steps", optimizer.lr_decay_steps, {"lr_decay_iters"}, std::nullopt,
                   kCountRange);
  }
  fields.Choice<LrDecayStyle>("lr_decay_style", optimizer.lr_decay_style, {"lr_decay_style"},
                              {{"constant", LrDecayStyle::kConstant},
                               {"linear", LrDecayStyle::kLinear},
                               {"cosine", LrDecayStyle::kCosine}},
                              std::nullopt);
  fields.Number("adam_beta1", optimizer.adam_beta1, {"adam_beta1"}, kept, beta);
  fields.Number("adam_beta2", optimizer.adam_beta2, {"adam_beta2"}, kept, beta);
  fields.Number("adam_eps", optimizer.adam_eps, {"adam_eps"}, kept, kNotNegative);
  fields.Number("weight_decay", optimizer.weight_decay, {"weight_decay"}, kept, kNotNegative);
  fields.Number("clip_grad", optimizer.clip_grad, {"clip_grad"}, kept, kNotNegative);
}

}  // namespace

void VisitMegatronTraining(MegatronFields& fields, TrainingSpec& training) {
  const std::optional<int64_t> kept;
  fields.Section("Batch");
  fields.Integer("sequence_length", training.sequence_length,
                 {"seq_length", "seq_len", "sequence_length", "encoder_seq_length"}, kept);
  fields.Integer("global_batch_size", training.global_batch_size, {"global_batch_size"}, kept);
  fields.Integer("steps", training.steps, {"train_iters"}, kept, kCountRange);
  fields.Integer("seed", training.seed, {"seed"}, kept, kCountRange);
  VisitPrecision(fields, training);
  VisitOptimizer(fields, training.optimizer);
}

}  // namespace tessera::spec
