#include "cost_model/spec/megatron_training_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"
#include "cost_model/spec/training_schedule.h"

namespace tessera::spec {
namespace {

using Show = MegatronFields::Show;

// Far beyond any training; sums of two such numbers are exact.
constexpr IntegerRange kSampleRange = {.minimum = 0, .maximum = 1'000'000'000'000'000};

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

// Counted in iterations, or in samples: then of the whole global batch, as the scheduler does.
void VisitSteps(MegatronFields& fields, const TrainingSpec& training, const char* key,
                int64_t& steps, const std::string& iterations, const std::string& samples) {
  if (!fields.is_reading()) {
    if (!training.batch_ramp) return fields.Write(iterations, steps);
    return fields.Write(samples, steps * training.global_batch_size);
  }
  MegatronArguments& arguments = fields.arguments();
  const std::optional<int64_t> by_iterations = arguments.Integer({iterations}, kCountRange);
  std::optional<int64_t> by_samples = arguments.Integer({samples}, kSampleRange);
  if (by_iterations && by_samples) {
    arguments.Fail({samples}, "samples", "none, as " + iterations + " says it");
  }
  if (by_samples) *by_samples /= training.global_batch_size;
  fields.Set(key, steps, by_iterations ? by_iterations : by_samples);
}

// The steps of a ramp are said in samples, those of another training in iterations.
void VisitTrainingLength(MegatronFields& fields, TrainingSpec& training) {
  if (!fields.is_reading()) {
    if (!training.batch_ramp) return fields.Write("train_iters", training.steps);
    const BatchRamp& ramp = *training.batch_ramp;
    fields.Write("rampup_batch_size",
                 base::Concat(ramp.start_batch_size, " ", ramp.increment, " ", ramp.samples));
    return fields.Write("train_samples", SamplesOfSteps(training, 0, training.steps));
  }
  MegatronArguments& arguments = fields.arguments();
  if (const auto ramp = arguments.Integers({"rampup_batch_size"})) {
    const bool is_ramp = ramp->size() == 3 && *std::min_element(ramp->begin(), ramp->end()) >= 1 &&
                         *std::max_element(ramp->begin(), ramp->end()) <= kSizeRange.maximum;
    if (!is_ramp) {
      arguments.Fail({"rampup_batch_size"}, base::Concat(ramp->size(), " numbers"),
                     "the batch to start with, its increment and the samples of the ramp");
    }
    fields.Set("batch_ramp", training.batch_ramp,
               std::optional(BatchRamp{(*ramp)[0], (*ramp)[1], (*ramp)[2]}));
  }
  const std::optional<int64_t> steps = arguments.Integer({"train_iters"}, kCountRange);
  const std::optional<int64_t> samples = arguments.Integer({"train_samples"}, kSampleRange);
  if (steps && samples) {
    arguments.Fail({"train_samples"}, "samples", "none, as train_iters says it");
  }
  if (steps && training.batch_ramp) {
    arguments.Fail({"train_iters"}, "iterations", "train_samples, as there is a ramp of the batch");
  }
  fields.Set("steps", training.steps,
             samples ? std::optional(StepsOfSamples(training, *samples)) : steps);
}

void VisitLearningRate(MegatronFields& fields, TrainingSpec& training) {
  const std::optional<double> kept;  // absent: the field as it is
  OptimizerSpec& optimizer = training.optimizer;
  const bool is_reading = fields.is_reading();
  fields.Number("lr", optimizer.lr, {"lr"}, kept, kNotNegative);
  fields.Number("min_lr", optimizer.min_lr, {"min_lr"}, kept, kNotNegative);
  if (optimizer.lr_warmup_init > 0 || is_reading) {
    fields.Number("lr_warmup_init", optimizer.lr_warmup_init, {"lr_warmup_init"}, kept,
                  kNotNegative);
  }
  VisitSteps(fields, training, "lr_warmup_steps", optimizer.lr_warmup_steps, "lr_warmup_iters",
             "lr_warmup_samples");
  if (optimizer.lr_decay_steps > 0 || is_reading) {
    VisitSteps(fields, training, "lr_decay_steps", optimizer.lr_decay_steps, "lr_decay_iters",
               "lr_decay_samples");
  }
  fields.Choice<LrDecayStyle>("lr_decay_style", optimizer.lr_decay_style, {"lr_decay_style"},
                              {{"constant", LrDecayStyle::kConstant},
                               {"linear", LrDecayStyle::kLinear},
                               {"cosine", LrDecayStyle::kCosine},
                               {"inverse-square-root", LrDecayStyle::kInverseSquareRoot},
                               {"WSD", LrDecayStyle::kWsd}},
                              std::nullopt);
  if (optimizer.lr_decay_style != LrDecayStyle::kWsd && !is_reading) return;
  VisitSteps(fields, training, "lr_wsd_decay_steps", optimizer.lr_wsd_decay_steps,
             "lr_wsd_decay_iters", "lr_wsd_decay_samples");
  fields.Choice<WsdDecayStyle>("lr_wsd_decay_style", optimizer.lr_wsd_decay_style,
                               {"lr_wsd_decay_style"},
                               {{"exponential", WsdDecayStyle::kExponential},
                                {"linear", WsdDecayStyle::kLinear},
                                {"cosine", WsdDecayStyle::kCosine},
                                {"minus_sqrt", WsdDecayStyle::kMinusSqrt}},
                               std::nullopt);
}

void VisitWeightDecay(MegatronFields& fields, OptimizerSpec& optimizer) {
  const std::optional<double> kept;
  const bool is_reading = fields.is_reading();
  const bool changes = optimizer.weight_decay_style != WeightDecayStyle::kConstant;
  if (is_reading || !changes) {
    fields.Number("weight_decay", optimizer.weight_decay, {"weight_decay"}, kept, kNotNegative);
  }
  if (!optimizer.decay_embeddings && !is_reading) {
    fields.Warn("Megatron-LM's weight decay takes embeddings in; the plan leaves them out.");
  }
  if (!is_reading && !changes) return;
  if (!is_reading && optimizer.end_weight_decay < optimizer.weight_decay) {
    fields.Refuse("weight decay", "Megatron-LM's weight decay cannot fall");
  }
  fields.Choice<WeightDecayStyle>("weight_decay_style", optimizer.weight_decay_style,
                                  {"weight_decay_incr_style"},
                                  {{"constant", WeightDecayStyle::kConstant},
                                   {"linear", WeightDecayStyle::kLinear},
                                   {"cosine", WeightDecayStyle::kCosine}},
                                  std::nullopt);
  if (optimizer.weight_decay_style == WeightDecayStyle::kConstant) {
    // Megatron-LM gives both the value of weight_decay.
    fields.arguments().Skip({"start_weight_decay", "end_weight_decay"});
    return;
  }
  fields.Number("weight_decay", optimizer.weight_decay, {"start_weight_decay"}, kept, kNotNegative);
  fields.Number("end_weight_decay", optimizer.end_weight_decay, {"end_weight_decay"}, kept,
                kNotNegative);
}

void VisitOptimizer(MegatronFields& fields, TrainingSpec& training) {
  const NumberRange beta = {.minimum = 0, .maximum = 1};
  const std::optional<double> kept;
  OptimizerSpec& optimizer = training.optimizer;
  fields.Section("Optimizer");
  if (fields.is_reading()) {
    fields.arguments().Only("optimizer", "adam", "AdamW");
  } else {
    fields.Write("optimizer", "adam");
  }
  VisitLearningRate(fields, training);
  fields.Number("adam_beta1", optimizer.adam_beta1, {"adam_beta1"}, kept, beta);
  fields.Number("adam_beta2", optimizer.adam_beta2, {"adam_beta2"}, kept, beta);
  fields.Number("adam_eps", optimizer.adam_eps, {"adam_eps"}, kept, kNotNegative);
  VisitWeightDecay(fields, optimizer);
  fields.Number("clip_grad", optimizer.clip_grad, {"clip_grad"}, kept, kNotNegative);
}

// Megatron-LM's hidden dropout is also that of the embeddings. Its default of 0.1 holds for nobody
// else: absent arguments leave dropout as it is. What is written depends on the program, too: see
// the planner's emission.
void ReadDropout(MegatronFields& fields, DropoutSpec& dropout) {
  const std::optional<double> kept;
  fields.Number("hidden_dropout", dropout.hidden, {"hidden_dropout"}, kept, kDropoutRange);
  fields.Number("embedding_dropout", dropout.embedding, {"hidden_dropout"}, kept, kDropoutRange);
  fields.Number("attention_dropout", dropout.attention, {"attention_dropout"}, kept, kDropoutRange);
}

}  // namespace

void VisitMegatronTraining(MegatronFields& fields, TrainingSpec& training) {
  const std::optional<int64_t> kept;
  fields.Section("Batch");
  fields.Integer("sequence_length", training.sequence_length,
                 {"seq_length", "seq_len", "sequence_length", "encoder_seq_length"}, kept);
  fields.Integer("global_batch_size", training.global_batch_size, {"global_batch_size"}, kept);
  VisitTrainingLength(fields, training);
  fields.Integer("seed", training.seed, {"seed"}, kept, {.minimum = 0});
  VisitPrecision(fields, training);
  VisitOptimizer(fields, training);
  if (fields.is_reading()) ReadDropout(fields, training.dropout);
}

}  // namespace tessera::spec
