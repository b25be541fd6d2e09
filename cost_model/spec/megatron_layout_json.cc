#include "cost_model/spec/megatron_layout_json.h"

#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"

namespace tessera::spec {
namespace {

using base::Concat;

using Names = std::vector<std::string>;

// Reads an argument into a field and notes the field's name.
class Sink {
 public:
  Sink(MegatronArguments& arguments, std::vector<std::string>& keys_set)
      : arguments_(arguments), keys_set_(keys_set) {}

  template <typename Field, typename Value>
  bool Set(const char* key, Field& field, const std::optional<Value>& value) {
    if (!value) return false;
    field = static_cast<Field>(*value);
    keys_set_.push_back(key);
    return true;
  }
  MegatronArguments& arguments() { return arguments_; }

 private:
  MegatronArguments& arguments_;
  std::vector<std::string>& keys_set_;
};

void ReadPrecision(Sink& sink, TrainingSpec& training) {
  MegatronArguments& arguments = sink.arguments();
  const std::optional<bool> bf16 = arguments.Flag({"bf16"});
  const std::optional<bool> fp16 = arguments.Flag({"fp16"});
  const bool fp8 = arguments.Given({"fp8", "fp8_format"});
  arguments.Skip({"fp8_margin", "fp8_interval", "fp8_amax_history_len", "fp8_amax_compute_algo",
                  "fp8_param_gather", "fp8_recipe"});
  if (bf16.value_or(false) && fp16.value_or(false)) {
    arguments.Fail({"fp16"}, "true", "false (bf16 is true)");
  }
  std::optional<Precision> precision;
  if (bf16 || fp16) precision = Precision::kFp32;  // Megatron-LM's, where both are false
  if (bf16.value_or(false)) precision = Precision::kBf16;
  if (fp16.value_or(false)) precision = Precision::kFp16;
  if (fp8) precision = Precision::kFp8;
  sink.Set("precision", training.precision, precision);
}

void ReadOptimizer(Sink& sink, OptimizerSpec& optimizer) {
  MegatronArguments& arguments = sink.arguments();
  const NumberRange beta = {.minimum = 0, .maximum = 1};
  sink.Set("lr", optimizer.lr, arguments.Number({"lr"}, kNotNegative));
  sink.Set("min_lr", optimizer.min_lr, arguments.Number({"min_lr"}, kNotNegative));
  sink.Set("lr_warmup_steps", optimizer.lr_warmup_steps,
           arguments.Integer({"lr_warmup_iters"}, kCountRange));
  sink.Set("lr_decay_steps", optimizer.lr_decay_steps,
           arguments.Integer({"lr_decay_iters"}, kCountRange));
  sink.Set("lr_decay_style", optimizer.lr_decay_style,
           arguments.Choice({"lr_decay_style"}, {"constant", "linear", "cosine"}));
  sink.Set("adam_beta1", optimizer.adam_beta1, arguments.Number({"adam_beta1"}, beta));
  sink.Set("adam_beta2", optimizer.adam_beta2, arguments.Number({"adam_beta2"}, beta));
  sink.Set("adam_eps", optimizer.adam_eps, arguments.Number({"adam_eps"}, kNotNegative));
  sink.Set("weight_decay", optimizer.weight_decay,
           arguments.Number({"weight_decay"}, kNotNegative));
  sink.Set("clip_grad", optimizer.clip_grad, arguments.Number({"clip_grad"}, kNotNegative));
}

void ReadPipeline(Sink& sink, int num_layers, ParallelSpec& parallel) {
  MegatronArguments& arguments = sink.arguments();
  sink.Set("pipeline_parallel_size", parallel.pipeline_parallel_size,
           arguments.Integer({"pipeline_model_parallel_size", "pipeline_parallel_size"}));
  const std::optional<int64_t> chunks =
      arguments.Integer({"virtual_pipeline_model_parallel_size", "virtual_pipeline_size",
                         "num_virtual_stages_per_pipeline_rank"});
  const Names per_chunk_names = {"num_layers_per_virtual_pipeline_stage"};
  const std::optional<int64_t> layers_per_chunk = arguments.Integer(per_chunk_names);
  std::optional<int64_t> size = chunks;
  if (layers_per_chunk) {
    const int64_t per_round = *layers_per_chunk * parallel.pipeline_parallel_size;
    if (num_layers % per_round != 0) {
      arguments.Fail(per_chunk_names, Concat(*layers_per_chunk),
                     Concat("a size that cuts ", num_layers, " layers evenly over ",
                            parallel.pipeline_parallel_size, " stages"));
    }
    size = num_layers / per_round;
  }
  sink.Set("virtual_pipeline_size", parallel.virtual_pipeline_size, size);
  if (size.value_or(1) > 1) {
    sink.Set("schedule", parallel.schedule, std::optional(ScheduleKind::kInterleaved));
  }
}

void ReadRecompute(Sink& sink, ParallelSpec& parallel) {
  MegatronArguments& arguments = sink.arguments();
  std::optional<Recompute> recompute;
  const Names names = {"recompute_granularity"};
  if (const auto index = arguments.Choice(names, {"full", "selective"})) {
    recompute = *index == 0 ? Recompute::kFull : Recompute::kSelective;
  }
  if (arguments.FlagOr({"recompute_activations"}, false)) recompute = Recompute::kSelective;
  if (arguments.FlagOr({"checkpoint_activations"}, false)) recompute = Recompute::kFull;
  arguments.Only("recompute_method", "uniform", "every layer recomputed");
  arguments.Only("recompute_num_layers", 1, "one layer recomputed at a time");
  arguments.Skip({"distribute_saved_activations"});
  sink.Set("recompute", parallel.recompute, recompute);
}

}  // namespace

void ReadMegatronTraining(MegatronArguments& arguments, TrainingSpec& training,
                          std::vector<std::string>& keys_set) {
  Sink sink(arguments, keys_set);
  sink.Set("sequence_length", training.sequence_length,
           arguments.Integer({"seq_length", "seq_len", "sequence_length", "encoder_seq_length"}));
  sink.Set("global_batch_size", training.global_batch_size,
           arguments.Integer({"global_batch_size"}));
  sink.Set("steps", training.steps, arguments.Integer({"train_iters"}, kCountRange));
  sink.Set("seed", training.seed, arguments.Integer({"seed"}, kCountRange));
  ReadOptimizer(sink, training.optimizer);
  ReadPrecision(sink, training);
}

void ReadMegatronLayout(MegatronArguments& arguments, int num_layers, ParallelSpec& parallel,
                        std::vector<std::string>& keys_set) {
  Sink sink(arguments, keys_set);
  sink.Set("tensor_parallel_size", parallel.tensor_parallel_size,
           arguments.Integer({"tensor_model_parallel_size", "tensor_parallel_size"}));
  ReadPipeline(sink, num_layers, parallel);
  sink.Set("data_parallel_size", parallel.data_parallel_size,
           arguments.Integer({"data_parallel_size"}));
  sink.Set("context_parallel_size", parallel.context_parallel_size,
           arguments.Integer({"context_parallel_size"}));
  sink.Set("expert_parallel_size", parallel.expert_parallel_size,
           arguments.Integer({"expert_model_parallel_size", "expert_parallel_size"}));
  sink.Set("micro_batch_size", parallel.micro_batch_size, arguments.Integer({"micro_batch_size"}));
  sink.Set("sequence_parallel", parallel.sequence_parallel, arguments.Flag({"sequence_parallel"}));
  ReadRecompute(sink, parallel);
  sink.Set("zero_stage", parallel.zero_stage, arguments.Flag({"use_distributed_optimizer"}));
  std::optional<AttentionKind> attention;
  if (const auto flash = arguments.Flag({"use_flash_attn"})) {
    attention = *flash ? AttentionKind::kFlash : AttentionKind::kUnfused;
  }
  sink.Set("attention", parallel.attention, attention);
  sink.Set("overlap_grad_reduce", parallel.overlap_grad_reduce,
           arguments.Flag({"overlap_grad_reduce"}));
  arguments.Only("grad_reduce_in_bf16", false, "gradients reduced in fp32");
  sink.Set("vocab_size_multiple", parallel.vocab_size_multiple,
           arguments.Integer({"make_vocab_size_divisible_by"}));
}

}  // namespace tessera::spec
