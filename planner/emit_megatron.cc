#include "planner/emit_megatron.h"

#include "cost_model/base/check.h"
#include "planner/emit.h"
#include "planner/emit_environment.h"
#include "planner/emit_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

// What the training says; else what Megatron-LM drops where a program has dropout at all (Brown et
// al. 2020, arXiv:2005.14165, and its own default).
std::string DropoutOf(double probability, bool has_dropout) {
  if (probability > 0) return Concat(probability);
  return has_dropout ? "0.1" : "0.0";
}

const char* const kNotHere =
    "Not here, for you to add: data and tokenizer (--data-path, --split, --tokenizer-type, "
    "--tokenizer-model, or --mock-data), checkpoints (--save, --load, --save-interval), logging "
    "(--log-interval).";

std::string RunText(const spec::Plan& plan) {
  const int per_node = plan.cluster.devices_per_node;
  const int num_nodes = (plan.num_devices + per_node - 1) / per_node;
  return CommentLines(
      Concat("Run on each node: grep -v '^#' FILE | xargs torchrun --nnodes ", num_nodes,
             " --nproc-per-node ", std::min(per_node, plan.num_devices),
             " --node-rank N --master-addr HOST --master-port 29500 pretrain_gpt.py"));
}

}  // namespace

spec::MegatronCommand MegatronCommandOf(const spec::Plan& plan, const spec::RuntimeSpec& runtime) {
  spec::MegatronCommand command =
      spec::WriteMegatronArguments(plan.model, plan.training, plan.parallel);
  const spec::DropoutSpec& dropout = plan.training.dropout;
  const std::string section = "Dropout";
  command.arguments.push_back(
      {section, "attention_dropout", DropoutOf(dropout.attention, runtime.attention_dropout)});
  command.arguments.push_back(
      {section, "hidden_dropout", DropoutOf(dropout.hidden, runtime.hidden_dropout)});
  if (dropout.embedding != dropout.hidden) {
    command.warnings.push_back(Concat("Embeddings are dropped like hidden states there, with ",
                                      command.arguments.back().value, " instead of ",
                                      dropout.embedding, "."));
  }
  return command;
}

Emission EmitMegatron(const spec::Plan& plan, const spec::RuntimeSpec& runtime) {
  const spec::MegatronCommand command = MegatronCommandOf(plan, runtime);
  Emission emission;
  emission.warnings = command.warnings;
  emission.violations = command.violations;
  std::string& text = emission.text;
  text = HeaderText(plan, "Arguments of Megatron-LM's pretrain_gpt.py, one a line.");
  text += "#\n" + RunText(plan) + CommentLines(kNotHere);
  if (const auto hints = EnvironmentOf(plan, EmitTarget::kMegatron); !hints.empty()) {
    text += "#\n# Environment:\n" + EnvironmentText(hints, "#   ");
  }
  text += WarningsText(emission.warnings);
  std::string section;
  for (const spec::MegatronArgument& argument : command.arguments) {
    if (argument.section != section) text += Concat("\n# ", argument.section, "\n");
    section = argument.section;
    text += spec::MegatronLine(argument) + "\n";
  }
  return emission;
}

}  // namespace tessera::planner
