// DeepSpeed: ds_config.json, and the arguments of Megatron-DeepSpeed's pretrain_gpt.py that go with
// it, made of Megatron-LM's, of which it is a branch of 2023 with names of its own.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"
#include "planner/emit.h"
#include "planner/emit_environment.h"
#include "planner/emit_megatron.h"
#include "planner/emit_text.h"

namespace tessera::planner {
namespace {

using base::Concat;
using nlohmann::ordered_json;
using spec::MegatronArgument;

// Arguments that Megatron-DeepSpeed has under the same name.
constexpr const char* kSameArguments[] = {"num_layers",
                                          "hidden_size",
                                          "num_attention_heads",
                                          "kv_channels",
                                          "ffn_hidden_size",
                                          "swiglu",
                                          "vocab_size",
                                          "max_position_embeddings",
                                          "disable_bias_linear",
                                          "untie_embeddings_and_output_weights",
                                          "init_method_std",
                                          "make_vocab_size_divisible_by",
                                          "tensor_model_parallel_size",
                                          "pipeline_model_parallel_size",
                                          "sequence_parallel",
                                          "micro_batch_size",
                                          "global_batch_size",
                                          "seq_length",
                                          "train_iters",
                                          "seed",
                                          "bf16",
                                          "fp16",
                                          "accumulate_allreduce_grads_in_fp32",
                                          "optimizer",
                                          "lr",
                                          "min_lr",
                                          "lr_warmup_iters",
                                          "lr_decay_iters",
                                          "lr_decay_style",
                                          "rampup_batch_size",
                                          "train_samples",
                                          "lr_warmup_samples",
                                          "lr_decay_samples",
                                          "start_weight_decay",
                                          "end_weight_decay",
                                          "weight_decay_incr_style",
                                          "adam_beta1",
                                          "adam_beta2",
                                          "adam_eps",
                                          "weight_decay",
                                          "clip_grad",
                                          "attention_dropout",
                                          "hidden_dropout"};

// Those with other names.
constexpr struct {
  const char* megatron;
  const char* name;
} kRenamed[] = {{"num_query_groups", "num_key_value_heads"},
                {"norm_epsilon", "layernorm_epsilon"},
                {"rotary_base", "rotary_position_embeddings_theta"},
                {"moe_router_topk", "topk"},
                {"expert_model_parallel_size", "moe_expert_parallel_size"}};

class DeepspeedWriter {
 public:
  DeepspeedWriter(const spec::Plan& plan, const spec::RuntimeSpec& runtime)
      : plan_(plan), parallel_(plan.parallel), command_(MegatronCommandOf(plan, runtime)) {}

  Emission Write() && {
    CheckModel();
    CheckOptimizer();
    CheckLayout();
    emission_.text = Config().dump(2) + "\n";
    emission_.second_suffix = ".args.txt";
    AddArguments();
    emission_.second_text = Head() + ArgumentsText();
    return std::move(emission_);
  }

 private:
  void Warn(std::string sentence) { emission_.warnings.push_back(std::move(sentence)); }
  void Refuse(const char* constraint, std::string sentence) {
    emission_.violations.push_back({.constraint = constraint, .message = std::move(sentence)});
  }
  void Add(const std::string& name, const std::string& value = "") {
    arguments_.push_back({"", name, value});
  }

  void CheckModel() {
    const spec::ModelSpec& model = plan_.model;
    const auto refuse_if = [&](bool is_lacking, const char* what) {
      if (is_lacking) Refuse("model", Concat("Megatron-DeepSpeed has no ", what));
    };
    refuse_if(model.mla.has_value(), "multi-head latent attention");
    refuse_if(model.sliding_window.has_value(), "sliding-window attention");
    refuse_if(model.num_multi_token_layers > 0, "multi-token prediction");
    refuse_if(model.qkv_bias != model.mlp_bias || model.attention_output_bias != model.mlp_bias,
              "biases in some of the linear layers only");
    refuse_if(model.moe && (model.moe->shared_expert_ffn_hidden_size > 0 ||
                            model.moe->num_leading_dense_layers > 0),
              "shared experts or leading dense layers");
    refuse_if(model.moe && model.moe->expert_ffn_hidden_size != model.ffn_hidden_size,
              "width of experts other than that of the MLP");
    refuse_if(model.qk_norm, "norm of queries and keys");
    refuse_if(plan_.training.precision == spec::Precision::kFp8, "fp8");
    refuse_if(plan_.training.precision == spec::Precision::kFp4, "fp4");
    if (model.rope_scaling) {
      Warn("Megatron-DeepSpeed does not stretch rotary frequencies as the model does.");
    }
  }

  void CheckOptimizer() {
    const spec::OptimizerSpec& optimizer = plan_.training.optimizer;
    if (optimizer.lr_decay_style == spec::LrDecayStyle::kWsd) {
      Refuse("learning rate", "Megatron-DeepSpeed has no learning rate of style wsd");
    }
    if (optimizer.lr_warmup_init > 0) {
      Warn("Megatron-DeepSpeed warms up from a learning rate of 0; the plan begins higher.");
    }
  }

  void CheckLayout() {
    const int pp = parallel_.pipeline_parallel_size;
    if (parallel_.schedule != spec::ScheduleKind::kOneForwardOneBackward &&
        parallel_.schedule != spec::ScheduleKind::kZeroBubbleH1) {
      Refuse("schedule", Concat("DeepSpeed's pipeline runs 1f1b and zb-h1, not ",
                                spec::ToString(parallel_.schedule)));
    }
    if (pp > 1 && parallel_.zero_stage >= 2) {
      Refuse("zero stage",
             Concat("DeepSpeed's pipeline takes ZeRO 0 and 1, not ", parallel_.zero_stage));
    }
    if (!parallel_.layers_per_virtual_stage.empty() || plan_.model.num_layers % pp != 0) {
      Refuse("uneven stages",
             Concat("DeepSpeed cuts the layers into stages by itself: ", plan_.model.num_layers,
                    " layers over ", pp, " stages of given sizes cannot be said"));
    }
    if (parallel_.context_parallel_size > 1 &&
        (parallel_.context_kind != spec::ContextKind::kAllToAll || parallel_.sequence_parallel ||
         pp > 1)) {
      Refuse("context parallelism",
             "DeepSpeed splits sequences by all-to-all (Ulysses) only, without Megatron's sequence "
             "parallelism and without a pipeline");
    }
    CheckExperts();
    if (parallel_.rank_order != spec::ParallelSpec{}.rank_order) {
      Refuse("rank order", Concat("DeepSpeed orders ranks itself, not by ", parallel_.rank_order));
    }
    if (!parallel_.recomputed_layers_per_virtual_stage.empty()) {
      Warn(
          "Megatron-DeepSpeed recomputes every layer with its activation checkpointing, where the "
          "plan recomputes some.");
    }
    if (parallel_.overlap_tp_comm) {
      Warn("Megatron-DeepSpeed does not overlap tensor-parallel communication with products.");
    }
  }

  void CheckExperts() {
    const int tp = parallel_.tensor_parallel_size;
    const int expert_tp = parallel_.expert_tensor_parallel_size;
    if (plan_.model.moe && expert_tp != 0 && expert_tp != 1 && expert_tp != tp) {
      Refuse("expert tensor parallelism", Concat("DeepSpeed cuts experts over 1 or all ", tp,
                                                 " tensor-parallel ranks, not ", expert_tp));
    }
  }

  int64_t Accumulation() const { return spec::NumMicrobatches(plan_.training, parallel_); }

  ordered_json ZeroSection() const {
    ordered_json zero = {{"stage", parallel_.zero_stage}};
    if (parallel_.zero_stage == 0) return zero;
    zero["overlap_comm"] = parallel_.overlap_grad_reduce;
    zero["contiguous_gradients"] = true;
    zero["reduce_scatter"] = true;
    zero["reduce_bucket_size"] = parallel_.bucket_elements;
    zero["allgather_partitions"] = true;
    zero["allgather_bucket_size"] = parallel_.bucket_elements;
    if (parallel_.zero_stage == 3) {
      zero["stage3_prefetch_bucket_size"] = parallel_.bucket_elements;
      zero["stage3_max_live_parameters"] = 1'000'000'000;
      zero["stage3_gather_16bit_weights_on_model_save"] = true;
    }
    if (parallel_.zero_group_size > 0) zero["mics_shard_size"] = parallel_.zero_group_size;
    if (parallel_.offload_optimizer) {
      zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
    }
    return zero;
  }

  ordered_json Config() {
    const spec::TrainingSpec& training = plan_.training;
    ordered_json config = {{"train_batch_size", training.global_batch_size},
                           {"train_micro_batch_size_per_gpu", parallel_.micro_batch_size},
                           {"gradient_accumulation_steps", Accumulation()},
                           {"steps_per_print", 10},
                           {"gradient_clipping", training.optimizer.clip_grad},
                           {"zero_optimization", ZeroSection()}};
    const bool is_bf16 = training.precision == spec::Precision::kBf16;
    config["bf16"] = {{"enabled", is_bf16}};
    config["fp16"] = {{"enabled", training.precision == spec::Precision::kFp16}};
    if (training.precision == spec::Precision::kFp16) {
      config["fp16"]["loss_scale"] = 0;  // dynamic
    }
    const bool is_full = parallel_.gradient_reduce_type == base::DType::kFloat32;
    if (training.precision != spec::Precision::kFp32) {
      config["data_types"] = {{"grad_accum_dtype", is_full ? "fp32" : "bf16"}};
      config["communication_data_type"] = is_full ? "fp32" : "bf16";
    }
    if (parallel_.zero_group_size > 0 && parallel_.zero_stage != 3) {
      Refuse("zero group size", "DeepSpeed shards within groups (MiCS) with ZeRO 3 only");
    }
    return config;
  }

  void AddArguments() {
    for (const MegatronArgument& argument : command_.arguments) {
      for (const char* name : kSameArguments) {
        if (argument.name == name) Add(name, argument.value);
      }
      for (const auto& renamed : kRenamed) {
        if (argument.name == renamed.megatron) Add(renamed.name, argument.value);
      }
    }
    const spec::ModelSpec& model = plan_.model;
    Add("normalization", std::string(spec::ToString(model.norm)));
    if (model.position == spec::PositionKind::kRope) Add("use_rotary_position_embeddings");
    if (model.position != spec::PositionKind::kLearned) Add("no_position_embedding");
    if (parallel_.attention == spec::AttentionKind::kFlash) Add("use_flash_attn_v2");
    AddExperts();
    if (parallel_.context_parallel_size > 1) {
      Add("ds_sequence_parallel_size", std::to_string(parallel_.context_parallel_size));
    }
    if (parallel_.pipeline_parallel_size == 1) Add("no_pipeline_parallel");
    if (parallel_.schedule == spec::ScheduleKind::kZeroBubbleH1) Add("enable_zbh1_pipeline");
    AddRecompute();
    Add("deepspeed");
    Add("deepspeed_config", "ds_config.json");
    Add("zero_stage", std::to_string(parallel_.zero_stage));
    if (parallel_.offload_optimizer) Add("cpu_optimizer");
  }

  void AddExperts() {
    if (!plan_.model.moe) return;
    const spec::MoeSpec& moe = *plan_.model.moe;
    Add("num_experts", std::to_string(moe.num_experts));
    Add("expert_interval", "1");
    Add("create_moe_param_group");
    const int expert_tp = parallel_.expert_tensor_parallel_size;
    if (expert_tp != 1 && parallel_.tensor_parallel_size > 1) {
      Add("enable_expert_tensor_parallelism");
    }
    if (moe.capacity_factor > 0) {
      Add("moe_train_capacity_factor", NumberText(moe.capacity_factor));
    } else {
      Add("disable_moe_token_dropping");
    }
  }

  void AddRecompute() {
    if (parallel_.recompute == spec::Recompute::kFull) {
      Add("checkpoint_activations");
      Add("deepspeed_activation_checkpointing");
    } else if (parallel_.recompute == spec::Recompute::kSelective) {
      Add("recompute_granularity", "selective");
    }
  }

  std::string Head() const {
    std::string text = HeaderText(
        plan_, "Arguments of Megatron-DeepSpeed's pretrain_gpt.py, which go with ds_config.json.");
    text += "#\n" +
            CommentLines(
                "Run: grep -v '^#' FILE | xargs deepspeed --hostfile HOSTFILE "
                "pretrain_gpt.py, with --deepspeed_config naming the configuration.") +
            CommentLines(
                "Not here, for you to add: data and tokenizer (--data-path, "
                "--tokenizer-type), checkpoints (--save, --load).");
    if (const auto hints = EnvironmentOf(plan_, EmitTarget::kDeepspeed); !hints.empty()) {
      text += "#\n# Environment:\n" + EnvironmentText(hints, "#   ");
    }
    return text + WarningsText(emission_.warnings) + "\n";
  }

  std::string ArgumentsText() const {
    std::string text;
    for (const MegatronArgument& argument : arguments_) {
      // Its own arguments are spelt with underscores.
      const bool is_own = argument.name == "deepspeed_config";
      text += is_own ? Concat("--deepspeed_config ", argument.value, "\n")
                     : spec::MegatronLine(argument) + "\n";
    }
    return text;
  }

  const spec::Plan& plan_;
  const spec::ParallelSpec& parallel_;
  const spec::MegatronCommand command_;
  std::vector<MegatronArgument> arguments_;
  Emission emission_;
};

}  // namespace

Emission EmitDeepspeed(const spec::Plan& plan, const spec::RuntimeSpec& runtime) {
  return DeepspeedWriter(plan, runtime).Write();
}

}  // namespace tessera::planner
