// A Slurm batch script that starts Megatron-LM with the plan's arguments.
#include <algorithm>

#include "cost_model/base/check.h"
#include "planner/emit.h"
#include "planner/emit_environment.h"
#include "planner/emit_megatron.h"
#include "planner/emit_text.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

struct Nodes {
  int count = 1;
  int devices_each = 1;
};

Nodes NodesOf(const spec::Plan& plan) {
  const int per_node = std::min(plan.cluster.devices_per_node, plan.num_devices);
  return {(plan.num_devices + per_node - 1) / per_node, per_node};
}

std::string DirectivesText(const spec::Plan& plan, const Nodes& nodes) {
  std::string name = plan.model.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isspace(c) != 0; }, '-');
  return Concat("#SBATCH --job-name=", name, "\n#SBATCH --nodes=", nodes.count,
                "\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=", nodes.devices_each,
                "\n#SBATCH --exclusive\n#SBATCH --mem=0\n#SBATCH --partition=", kFillIn,
                "\n#SBATCH --account=", kFillIn, "\n#SBATCH --time=", kFillIn, "\n");
}

std::string DurationText(const spec::Plan& plan) {
  if (!plan.prediction) return "";
  const double hours =
      plan.prediction->step_time_s * static_cast<double>(plan.training.steps) / 3600;
  return CommentLines(Concat("The ", plan.training.steps, " steps take ", FormatFixed(hours, 1),
                             " hours as predicted, without checkpoints and evaluation."));
}

std::string PlaceholdersText() {
  return Concat(
      "# To be filled in: every ", kFillIn, " above and here.\nMEGATRON_DIR=", kFillIn,
      "       # Megatron-LM's source tree, as the container sees it\nCONTAINER_IMAGE=", kFillIn,
      "    # remove --container-image below where the cluster runs without\nCONTAINER_MOUNTS=",
      kFillIn,
      "   # such as /data:/data\nDATA_ARGUMENTS=(           # data, tokenizer, checkpoints, "
      "logging\n  --data-path ",
      kFillIn, "\n  --tokenizer-type ", kFillIn, "\n  --tokenizer-model ", kFillIn, "\n  --save ",
      kFillIn, "\n  --save-interval 1000\n  --log-interval 10\n)\n");
}

std::string ArgumentsText(const spec::MegatronCommand& command) {
  std::string text = "ARGUMENTS=(\n";
  std::string section;
  for (const spec::MegatronArgument& argument : command.arguments) {
    if (argument.section != section) text += Concat("  # ", argument.section, "\n");
    section = argument.section;
    text += Concat("  ", spec::MegatronLine(argument), "\n");
  }
  return text + ")\n";
}

std::string LaunchText(const Nodes& nodes) {
  return Concat(
      "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "export MASTER_ADDR MASTER_PORT=29500\n\n"
      "# One torchrun a node, which starts a process for each of its ",
      nodes.devices_each,
      " devices.\n"
      "srun --kill-on-bad-exit=1 \\\n"
      "  --container-image=\"$CONTAINER_IMAGE\" --container-mounts=\"$CONTAINER_MOUNTS\" \\\n"
      "  bash -c 'exec torchrun --nnodes \"$SLURM_NNODES\" --nproc-per-node ",
      nodes.devices_each,
      " \\\n"
      "    --node-rank \"$SLURM_NODEID\" --master-addr \"$MASTER_ADDR\" \\\n"
      "    --master-port \"$MASTER_PORT\" \"$@\"' launch \\\n"
      "  \"$MEGATRON_DIR/pretrain_gpt.py\" \"${ARGUMENTS[@]}\" \"${DATA_ARGUMENTS[@]}\"\n");
}

void CheckNodes(const spec::Plan& plan, const Nodes& nodes, Emission& emission) {
  constexpr int kLargestHost = 16;
  if (nodes.devices_each > kLargestHost) {
    emission.warnings.push_back(
        Concat("The cluster's NVLink domain of ", nodes.devices_each,
               " devices spans several hosts: set --nodes, --gpus-per-node and --nproc-per-node "
               "to hosts and the devices of one."));
  }
  if (nodes.count * nodes.devices_each != plan.num_devices) {
    emission.violations.push_back(
        {.constraint = "devices % node",
         .message = Concat(plan.num_devices, " devices do not fill nodes of ", nodes.devices_each,
                           ": torchrun starts as many processes on each"),
         .needed = static_cast<double>(nodes.devices_each),
         .available = static_cast<double>(plan.num_devices),
         .unit = "devices"});
  }
}

}  // namespace

Emission EmitSlurm(const spec::Plan& plan, const spec::RuntimeSpec& runtime) {
  const spec::MegatronCommand command = MegatronCommandOf(plan, runtime);
  const Nodes nodes = NodesOf(plan);
  Emission emission;
  emission.warnings = command.warnings;
  emission.violations = command.violations;
  CheckNodes(plan, nodes, emission);
  emission.text = "#!/bin/bash\n" + DirectivesText(plan, nodes) + "#\n" +
                  HeaderText(plan, "Runs Megatron-LM's pretrain_gpt.py by torchrun under Slurm.") +
                  DurationText(plan) + WarningsText(emission.warnings) + "\nset -euo pipefail\n\n" +
                  PlaceholdersText() + "\n" +
                  EnvironmentText(EnvironmentOf(plan, EmitTarget::kSlurm), "") + "\n" +
                  ArgumentsText(command) + "\n" + LaunchText(nodes);
  return emission;
}

}  // namespace tessera::planner
