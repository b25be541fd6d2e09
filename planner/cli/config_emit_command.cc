#include "planner/cli/config_emit_command.h"

#include <memory>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "planner/cli/emit_options.h"

namespace tessera::planner {
namespace {

constexpr const char* kEmitExamples = R"(Examples:
  tessera config emit --plan plan.json --for megatron > arguments.txt
  tessera config emit --plan plan.json --for deepspeed --out ds_config.json
)";

struct EmitOptions {
  std::string plan_path;
  std::string target;
  std::string out;
  bool quiet = false;
};

void RunEmit(const EmitOptions& options) {
  const spec::Plan plan = spec::ReadPlan(options.plan_path);
  const auto violations =
      spec::FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices);
  if (!violations.empty()) {
    throw base::InfeasibleError(options.plan_path + ": " + violations.front().message);
  }
  const Emission emission = EmitOrThrow(options.target, plan, spec::RuntimeSpec{}, options.quiet);
  DeliverEmission(emission, options.target, options.out, options.quiet);
}

}  // namespace

void AddConfigEmitCommand(CLI::App& config) {
  const auto options = std::make_shared<EmitOptions>();  // kept by the callback
  CLI::App* emit =
      config.add_subcommand("emit", "A saved plan as another program's arguments or configuration");
  emit->footer(kEmitExamples);
  emit->add_option("--plan", options->plan_path, "The plan, as --out of plan and estimate wrote it")
      ->required();
  emit->add_option("--for", options->target, "megatron|nemo|torchtitan|deepspeed|slurm")
      ->required()
      ->check(CLI::IsMember(EmitTargetNames()));
  emit->add_option("--out", options->out, "Write it to this file");
  AddQuietFlag(*emit, options->quiet);
  emit->callback([options] { RunEmit(*options); });
}

}  // namespace tessera::planner
