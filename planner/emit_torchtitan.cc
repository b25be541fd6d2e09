// torchtitan: a TOML file for its train.py.
#include <algorithm>
#include <numeric>
#include <optional>

#include "cost_model/base/check.h"
#include "cost_model/spec/stage_partition.h"
#include "planner/emit.h"
#include "planner/emit_environment.h"
#include "planner/emit_text.h"
#include "planner/emit_torchtitan_model.h"

namespace tessera::planner {
namespace {

using base::Concat;

// Collects the file and what the program cannot do.
class TorchtitanWriter {
 public:
  explicit TorchtitanWriter(const spec::Plan& plan) : plan_(plan), parallel_(plan.parallel) {}

  Emission Write() && {
    CheckLayout();
    WriteModel();
    WriteOptimizer();
    WriteTraining();
    WriteParallelism();
    WriteRecompute();
    Section("compile");
    Set("enable", "true");
    Set("components", "[\"model\", \"loss\"]");
    emission_.text = Head() + emission_.text;
    return std::move(emission_);
  }

 private:
  void Section(const std::string& name) { emission_.text += Concat("\n[", name, "]\n"); }
  void Set(const std::string& key, const std::string& value) {
    emission_.text += Concat(key, " = ", value, "\n");
  }
  void Set(const std::string& key, int64_t value) { Set(key, std::to_string(value)); }
  void SetText(const std::string& key, const std::string& value) { Set(key, '"' + value + '"'); }
  void Warn(std::string sentence) { emission_.warnings.push_back(std::move(sentence)); }
  void Refuse(const char* constraint, std::string sentence) {
    emission_.violations.push_back({.constraint = constraint, .message = std::move(sentence)});
  }

  std::string Head() const {
    std::string text = HeaderText(plan_, "Configuration of torchtitan.");
    text += CommentLines(Concat(
        "Run on each node: torchrun --nproc-per-node ",
        std::min(plan_.cluster.devices_per_node, plan_.num_devices),
        " --nnodes ... -m torchtitan.train --job.config_file FILE. Versions whose configuration is "
        "a Python function take the same names on their command line: --parallelism."
        "tensor_parallel_degree ",
        parallel_.tensor_parallel_size,
        " and so on. Data, tokenizer and checkpoints are yours to "
        "add."));
    if (const auto hints = EnvironmentOf(plan_, EmitTarget::kTorchtitan); !hints.empty()) {
      text += "#\n# Environment:\n" + EnvironmentText(hints, "#   ");
    }
    return text + WarningsText(emission_.warnings);
  }

  void CheckLayout() {
    if (parallel_.tensor_parallel_size > 1 && !parallel_.sequence_parallel) {
      Refuse("sequence parallelism",
             "torchtitan's tensor parallelism is always sequence parallel; the plan's is not");
    }
    if (plan_.training.precision == spec::Precision::kFp16) {
      Refuse("precision", "torchtitan has no training in fp16");
    } else if (plan_.training.precision == spec::Precision::kFp4) {
      Refuse("precision", "torchtitan has no training in fp4");
    }
    if (parallel_.context_parallel_size > 1 &&
        parallel_.context_kind == spec::ContextKind::kAllToAll) {
      Refuse("context parallelism",
             "torchtitan's context parallelism passes or gathers keys and values and never swaps "
             "heads for tokens (all-to-all)");
    }
    if (parallel_.rank_order != spec::ParallelSpec{}.rank_order) {
      Refuse("rank order", Concat("torchtitan orders ranks by ", spec::ParallelSpec{}.rank_order,
                                  ", not ", parallel_.rank_order));
    }
    if (parallel_.gradient_reduce_type != base::DType::kFloat32) {
      Warn("Gradients are reduced in fp32: torchtitan takes no other type.");
    }
    if (parallel_.attention == spec::AttentionKind::kUnfused) {
      Warn("torchtitan's attention is fused; the plan prices the unfused one.");
    }
    if (plan_.training.dropout != spec::DropoutSpec()) {
      Warn("torchtitan's models drop nothing: dropout is left out.");
    }
  }

  void WriteModel() {
    const TorchtitanModel model = TorchtitanModelOf(plan_.model);
    if (model.name.empty()) {
      Refuse("model", Concat("torchtitan has no model of the form of ", plan_.model.name));
      return;
    }
    Section("job");
    SetText("description", Concat(plan_.model.name, " on ", plan_.num_devices, " devices"));
    Section("model");
    SetText("name", model.name);
    SetText("flavor", model.flavor.empty() ? kFillIn : model.flavor);
    if (model.flavor.empty()) {
      Warn(Concat("torchtitan has no flavor of these sizes: register one of ",
                  TorchtitanSizesText(plan_.model), " and name it in place of ", kFillIn, "."));
    }
    const bool is_fp8 = plan_.training.precision == spec::Precision::kFp8;
    if (!is_fp8) return;
    Set("converters", "[\"quantize.linear.float8\"]");
    Section("quantize.linear.float8");
    SetText("recipe_name", "tensorwise");
  }

  void WriteOptimizer() {
    const spec::OptimizerSpec& optimizer = plan_.training.optimizer;
    Section("optimizer");
    SetText("name", "AdamW");
    Set("lr", NumberText(optimizer.lr));
    Set("beta1", NumberText(optimizer.adam_beta1));
    Set("beta2", NumberText(optimizer.adam_beta2));
    Set("eps", NumberText(optimizer.adam_eps));
    Set("weight_decay", NumberText(optimizer.weight_decay));
    if (optimizer.weight_decay_style != spec::WeightDecayStyle::kConstant) {
      Warn("torchtitan's weight decay is constant; the plan's changes.");
    }
    WriteLearningRate();
  }

  // torchtitan keeps the learning rate until its decay begins.
  void WriteLearningRate() {
    const spec::OptimizerSpec& optimizer = plan_.training.optimizer;
    using spec::LrDecayStyle;
    using spec::WsdDecayStyle;
    Section("lr_scheduler");
    Set("warmup_steps", optimizer.lr_warmup_steps);
    if (optimizer.lr_warmup_init > 0) {
      Warn("torchtitan warms up from a learning rate of 0; the plan begins higher.");
    }
    if (optimizer.lr_decay_style == LrDecayStyle::kConstant) {
      Set("decay_ratio", "0.0");
      return;
    }
    if (optimizer.lr_decay_style == LrDecayStyle::kInverseSquareRoot) {
      Refuse("learning rate", "torchtitan has no learning rate of style inverse-square-root");
      return;
    }
    std::string type(spec::ToString(optimizer.lr_decay_style));
    if (optimizer.lr_decay_style == LrDecayStyle::kWsd) {
      if (optimizer.lr_wsd_decay_style == WsdDecayStyle::kExponential) {
        Refuse("learning rate", "torchtitan has no exponential decay of the learning rate");
        return;
      }
      Set("decay_ratio", NumberText(static_cast<double>(optimizer.lr_wsd_decay_steps) /
                                    static_cast<double>(plan_.training.steps)));
      type = optimizer.lr_wsd_decay_style == WsdDecayStyle::kMinusSqrt
                 ? "sqrt"
                 : std::string(spec::ToString(optimizer.lr_wsd_decay_style));
    }
    SetText("decay_type", type);
    Set("min_lr_factor", NumberText(optimizer.lr > 0 ? optimizer.min_lr / optimizer.lr : 0));
    if (optimizer.lr_decay_steps > 0 && optimizer.lr_decay_steps != plan_.training.steps) {
      Warn("torchtitan's learning rate decays until the last step; the plan says another one.");
    }
  }

  void WriteTraining() {
    const spec::TrainingSpec& training = plan_.training;
    const bool is_pipelined = parallel_.pipeline_parallel_size > 1;
    Section("training");
    if (training.batch_ramp) {
      Warn("torchtitan's batch does not grow; the plan's does, up to the one given here.");
    }
    // A pipeline takes its share of the batch at once and cuts it into micro-batches itself;
    // without one, torchtitan accumulates passes of the local batch.
    Set("local_batch_size", is_pipelined ? training.global_batch_size / parallel_.data_parallel_size
                                         : parallel_.micro_batch_size);
    Set("global_batch_size", training.global_batch_size);
    Set("seq_len", training.sequence_length);
    Set("max_norm", NumberText(training.optimizer.clip_grad));
    Set("steps", training.steps);
    SetText("mixed_precision_param",
            training.precision == spec::Precision::kFp32 ? "float32" : "bfloat16");
    SetText("mixed_precision_reduce", "float32");
    if (!parallel_.offload_optimizer) return;
    Set("enable_cpu_offload", "true");
    Warn("torchtitan moves parameters and gradients to the host too where it offloads.");
  }

  void WriteParallelism() {
    Section("parallelism");
    WriteDataParallel();
    Set("tensor_parallel_degree", parallel_.tensor_parallel_size);
    if (parallel_.overlap_tp_comm) Set("enable_async_tensor_parallel", "true");
    WritePipeline();
    Set("context_parallel_degree", parallel_.context_parallel_size);
    if (parallel_.context_parallel_size > 1) {
      const bool is_ring = parallel_.context_kind == spec::ContextKind::kRing;
      SetText("context_parallel_rotate_method", is_ring ? "alltoall" : "allgather");
    }
    if (!plan_.model.moe) return;
    Set("expert_parallel_degree", parallel_.expert_parallel_size);
    const int expert_tp = parallel_.expert_tensor_parallel_size;
    if (expert_tp > 1 && expert_tp != parallel_.tensor_parallel_size) {
      Refuse("expert tensor parallelism",
             Concat("torchtitan cuts experts over 1 or all ", parallel_.tensor_parallel_size,
                    " tensor-parallel ranks, not ", expert_tp));
    }
    Set("expert_tensor_parallel_degree",
        expert_tp == 0 ? parallel_.tensor_parallel_size : expert_tp);
  }

  void WriteDataParallel() {
    const int dp = parallel_.data_parallel_size;
    int shard = parallel_.zero_stage == 0 ? 1 : dp;
    // Groups that shard count context ranks as well, which the degree does not.
    const int group = parallel_.zero_group_size / parallel_.context_parallel_size;
    if (parallel_.zero_stage > 0 && group > 0 && dp % group == 0) shard = group;
    Set("data_parallel_replicate_degree", dp / shard);
    Set("data_parallel_shard_degree", shard);
    if (parallel_.zero_stage == 0 && dp > 1 && plan_.num_devices != dp) {
      Refuse("zero stage",
             "torchtitan replicates parameters (ZeRO 0) without any other parallelism only");
    }
    if (shard == 1 && parallel_.context_parallel_size == 1) return;
    SetText("fsdp_reshard_after_forward", parallel_.zero_stage == 3 ? "always" : "never");
    if (parallel_.zero_stage == 1) {
      Warn(
          "torchtitan has no ZeRO 1: FSDP that keeps its parameters after the forward pass (ZeRO "
          "2) stands in, which reduces gradients with every micro-batch and takes less memory.");
    }
  }

  void WritePipeline() {
    const int pp = parallel_.pipeline_parallel_size;
    Set("pipeline_parallel_degree", pp);
    if (pp == 1) return;
    const std::string schedule = ScheduleName();
    if (schedule.empty()) {
      Refuse("schedule", Concat("torchtitan runs the schedules gpipe, 1f1b and interleaved, not ",
                                spec::ToString(parallel_.schedule)));
    }
    if (parallel_.microbatch_group_size != 0 && parallel_.microbatch_group_size != pp) {
      Warn(Concat("torchtitan interleaves groups of as many micro-batches as stages, not of ",
                  parallel_.microbatch_group_size, "."));
    }
    SetText("pipeline_parallel_schedule", schedule);
    Set("pipeline_parallel_microbatch_size", parallel_.micro_batch_size);
    std::string parts;
    for (const spec::VirtualStage& stage : spec::PartitionStages(plan_.model, parallel_)) {
      std::string names = stage.has_embedding ? "\"tok_embeddings\"" : "";
      for (int i = 0; i < stage.num_layers; ++i) {
        names += Concat(names.empty() ? "" : ", ", "\"layers.", stage.first_layer + i, "\"");
      }
      if (stage.has_head) names += Concat(names.empty() ? "" : ", ", "\"norm\", \"output\"");
      parts += Concat("  [", names, "],\n");
    }
    Set("module_fqns_per_model_part", "[\n" + parts + "]");
  }

  std::string ScheduleName() const {
    switch (parallel_.schedule) {
      case spec::ScheduleKind::kGPipe:
        return "GPipe";
      case spec::ScheduleKind::kOneForwardOneBackward:
        return "1F1B";
      case spec::ScheduleKind::kInterleaved:
        return "Interleaved1F1B";
      default:
        return "";
    }
  }

  void WriteRecompute() {
    Section("activation_checkpoint");
    if (parallel_.recompute == spec::Recompute::kNone) return SetText("mode", "none");
    if (parallel_.recompute == spec::Recompute::kSelective) {
      SetText("mode", "selective");
      SetText("selective_ac_option", "op");
      Warn(
          "torchtitan's selective recomputation keeps the results of products and attention and "
          "recomputes the rest; the plan's recomputes attention.");
      return;
    }
    const std::vector<int>& counts = parallel_.recomputed_layers_per_virtual_stage;
    const int recomputed =
        counts.empty() ? plan_.model.num_layers : std::accumulate(counts.begin(), counts.end(), 0);
    if (recomputed == 0) return SetText("mode", "none");
    const int interval = plan_.model.num_layers / recomputed;
    if (interval == 1) {
      SetText("mode", "full");
      if (recomputed < plan_.model.num_layers) {
        Warn(Concat("torchtitan recomputes all layers or every n-th one: all, where the plan says ",
                    recomputed, " of ", plan_.model.num_layers, "."));
      }
      return;
    }
    SetText("mode", "selective");
    SetText("selective_ac_option", std::to_string(interval));
    Warn(Concat("Every ", interval,
                "th layer is recomputed, where the plan recomputes the first "
                "ones of each stage, ",
                recomputed, " in all."));
  }

  const spec::Plan& plan_;
  const spec::ParallelSpec& parallel_;
  Emission emission_;
};

}  // namespace

Emission EmitTorchtitan(const spec::Plan& plan) { return TorchtitanWriter(plan).Write(); }

}  // namespace tessera::planner
