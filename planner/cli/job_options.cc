#include "planner/cli/job_options.h"

#include "cost_model/base/check.h"

namespace tessera::planner {
namespace {

template <typename T>
CLI::Option* AddOptional(CLI::App& command, const std::string& names, std::optional<T>& value,
                         const std::string& description) {
  return command.add_option(names, value, description);
}

// At least 0, below 1.
CLI::Validator DropoutShare() {
  return CLI::Validator(
      [](const std::string& text) {
        double value = -1;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        if (is_number && value >= 0 && value < 1) return std::string();
        return base::Concat("found ", text, ", expected a number of at least 0 and below 1");
      },
      "SHARE");
}

void AddModelAndMachine(CLI::App& command, JobOptions& options) {
  command.add_option(
      "--model", options.model,
      "Preset name, or a file: ours, Hugging Face config.json, Megatron-LM JSON or YAML");
  command.add_option("--cluster", options.cluster, "Preset name or file");
  AddOptional(command, "--devices,--gpus", options.num_devices,
              "Devices to use (default: one node of the cluster)")
      ->check(AtLeastOne());
}

void AddProgram(CLI::App& command, JobOptions& options) {
  AddOptional(
      command, "--target", options.target,
      "Program to plan for: tessera|megatron|torchtitan|deepspeed, or a runtime's preset or "
      "file (default: what --emit is for; else tessera on local-cpu, megatron elsewhere)");
  command.add_option("--hyperparameters", options.hyperparameters,
                     "Training keys (learning rate, steps, ...): preset name or JSON file");
}

void AddAxes(CLI::App& command, JobOptions& options) {
  const auto add_size = [&](const std::string& names, std::optional<int>& value,
                            const std::string& description) {
    AddOptional(command, names, value, description)->check(AtLeastOne())->group("Layout");
  };
  add_size("--tp,--tensor-model-parallel-size", options.tensor_parallel_size,
           "Tensor-parallel size");
  add_size("--pp,--pipeline-model-parallel-size", options.pipeline_parallel_size,
           "Pipeline-parallel size");
  add_size("--dp,--data-parallel-size", options.data_parallel_size, "Data-parallel size");
  add_size("--cp,--context-parallel-size", options.context_parallel_size, "Context-parallel size");
  add_size("--ep,--expert-model-parallel-size", options.expert_parallel_size,
           "Expert-parallel size");
  AddOptional(command, "--etp,--expert-tensor-parallel-size", options.expert_tensor_parallel_size,
              "Ranks that share an expert's matrices; 0: as --tp")
      ->check(CLI::NonNegativeNumber)
      ->group("Layout");
  add_size("--vpp,--virtual-pipeline-model-parallel-size,--num-virtual-stages-per-pipeline-rank",
           options.virtual_pipeline_size,
           "Chunks of layers a pipeline stage (interleaved schedule)");
  AddOptional(command, "--micro-batch-size", options.micro_batch_size, "Samples of one pass")
      ->check(AtLeastOne())
      ->group("Layout");
}

void AddChoices(CLI::App& command, JobOptions& options) {
  AddOptional(command, "--sequence-parallel", options.sequence_parallel,
              "true|false: split tokens over tensor ranks between the products")
      ->expected(0, 1)
      ->default_str("true")
      ->group("Layout");
  AddOptional(command, "--recompute,--recompute-granularity", options.recompute,
              "Activations computed again: none|selective|full")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->group("Layout");
  AddOptional(command, "--recompute-num-layers", options.num_recomputed_layers,
              "With full recomputation: layers of each virtual stage that are recomputed")
      ->check(AtLeastOne())
      ->group("Layout");
  AddOptional(command, "--context-kind", options.context_kind,
              "How context-parallel ranks meet: ring|all-gather|all-to-all")
      ->check(CLI::IsMember({"ring", "all-gather", "all-to-all"}))
      ->group("Layout");
  AddOptional(command, "--zero-stage", options.zero_stage,
              "0|1|2|3; 1 shards optimizer state over data ranks")
      ->check(CLI::Range(0, 3))
      ->group("Layout");
  command
      .add_flag_callback(
          "--use-distributed-optimizer", [&options] { options.zero_stage = 1; },
          "The same as --zero-stage 1")
      ->group("Layout");
  AddOptional(command, "--zero-group-size", options.zero_group_size,
              "Data ranks that shard state between them, replicated over the others (hybrid "
              "sharding); 0: all of them")
      ->check(CLI::NonNegativeNumber)
      ->group("Layout");
  AddOptional(command, "--microbatch-group-size,--microbatch-group-size-per-virtual-pipeline-stage",
              options.microbatch_group_size,
              "Interleaved: micro-batches that go through a chunk before the next one; 0: as many "
              "as stages")
      ->check(CLI::NonNegativeNumber)
      ->group("Layout");
  AddOptional(command, "--schedule", options.schedule, "gpipe|1f1b|interleaved|zb-h1")
      ->check(CLI::IsMember({"gpipe", "1f1b", "interleaved", "zb-h1"}))
      ->group("Layout");
  command
      .add_option("--layers-per-virtual-stage", options.layers_per_virtual_stage,
                  "Layers of each virtual stage, comma-separated (default: even)")
      ->delimiter(',')
      ->group("Layout");
  AddOptional(command, "--rank-order", options.rank_order,
              "Order of the axes over ranks, fastest first (default tp-cp-ep-dp-pp)")
      ->group("Layout");
}

void AddSwitches(CLI::App& command, JobOptions& options) {
  command
      .add_flag("--offload-optimizer", options.offload_optimizer,
                "Optimizer state and update on the host")
      ->group("Layout");
  command
      .add_flag("--overlap-param-gather", options.overlap_param_gather,
                "Gather updated parameters beside the next forward pass")
      ->group("Layout");
  command
      .add_flag("--overlap-tp-comm,--tp-comm-overlap", options.overlap_tp_comm,
                "Tensor-parallel collectives beside the products next to them")
      ->group("Layout");
  command
      .add_flag("--overlap-pp-comm,--overlap-p2p-communication", options.overlap_pp_comm,
                "Transfers between stages beside other micro-batches' passes")
      ->group("Layout");
}

void AddBatch(CLI::App& command, JobOptions& options) {
  AddOptional(command, "--global-batch-size", options.global_batch_size,
              "Samples of one optimizer step")
      ->check(AtLeastOne())
      ->group("Training");
  AddOptional(command, "--seq-length", options.sequence_length,
              "Tokens of one sample (default: the model's)")
      ->check(AtLeastOne())
      ->group("Training");
}

void AddTraining(CLI::App& command, JobOptions& options) {
  AddOptional(command, "--precision", options.precision,
              "fp32|bf16|fp16|fp8|fp4 (default: the first of bf16, fp16, fp32 that the device has)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "fp8", "fp4"}))
      ->group("Training");
  command
      .add_flag_callback(
          "--bf16", [&options] { options.precision = "bf16"; }, "The same as --precision bf16")
      ->group("Training");
  command
      .add_flag_callback(
          "--fp16", [&options] { options.precision = "fp16"; }, "The same as --precision fp16")
      ->group("Training");
  AddOptional(command, "--attention", options.attention, "unfused|flash (default flash)")
      ->check(CLI::IsMember({"unfused", "flash"}))
      ->group("Training");
  AddOptional(command, "--steps,--train-iters", options.steps, "Optimizer steps of the run")
      ->check(AtLeastOne())
      ->group("Training");
  AddOptional(command, "--seed", options.seed, "Seed of weights, data order and dropout")
      ->group("Training");
  const auto add_dropout = [&](const char* name, std::optional<double>& probability,
                               const char* description) {
    AddOptional(command, name, probability, description)->check(DropoutShare())->group("Training");
  };
  add_dropout("--hidden-dropout", options.hidden_dropout,
              "Share dropped of what attention and MLP add to the hidden state (default 0)");
  add_dropout("--attention-dropout", options.attention_dropout,
              "Share dropped of attention's probabilities (default 0)");
  add_dropout("--embedding-dropout", options.embedding_dropout,
              "Share dropped of the embeddings (default 0)");
  command
      .add_option(
          "--flops-convention", options.flops_convention,
          "Model FLOPs count causal attention in full (as the papers) or halved: full|causal")
      ->check(CLI::IsMember({"full", "causal"}))
      ->group("Training");
}

}  // namespace

// The message is ours: CLI11's shows the largest double.
CLI::Validator AtLeastOne() {
  return CLI::Validator(
      [](const std::string& text) {
        int64_t value = 0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        if (is_number && value >= 1) return std::string();
        return base::Concat("found ", text, ", expected a whole number of at least 1");
      },
      "POSITIVE");
}

void AddJobOptions(CLI::App& command, JobOptions& options) {
  AddModelAndMachine(command, options);
  AddProgram(command, options);
  AddAxes(command, options);
  AddChoices(command, options);
  AddSwitches(command, options);
  AddBatch(command, options);
  AddTraining(command, options);
}

void AddLayoutAndTrainingOptions(CLI::App& command, JobOptions& options) {
  AddProgram(command, options);
  AddAxes(command, options);
  AddChoices(command, options);
  AddSwitches(command, options);
  AddTraining(command, options);
}

}  // namespace tessera::planner
