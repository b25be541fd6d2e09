// A plan as the arguments or the configuration of a training program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/spec/plan.h"
#include "cost_model/spec/runtime_spec.h"

namespace tessera::planner {

// kMegatron: arguments of Megatron-LM's pretrain_gpt.py; kNemo: a YAML file of overrides for a
// recipe of NeMo's Megatron-Bridge; kTorchtitan: a TOML file; kDeepspeed: ds_config.json, and
// arguments of Megatron-DeepSpeed; kSlurm: a batch script that runs Megatron-LM.
enum class EmitTarget : uint8_t { kMegatron, kNemo, kTorchtitan, kDeepspeed, kSlurm };

std::string_view ToString(EmitTarget target);  // "megatron", "nemo", ...
std::optional<EmitTarget> EmitTargetFromString(std::string_view text);
std::vector<std::string> EmitTargetNames();

struct Emission {
  std::string text;
  // Of a program that takes two files: what goes into the second, and its name's ending.
  std::string second_text;
  std::string second_suffix;
  std::vector<std::string> warnings;        // what the program does otherwise than the plan
  std::vector<spec::Violation> violations;  // what it cannot run; then the text is no use
};

// The runtime gives dropout. REQUIRES: FindViolations of the plan is empty.
Emission Emit(EmitTarget target, const spec::Plan& plan, const spec::RuntimeSpec& runtime);

// Each of them by itself.
Emission EmitMegatron(const spec::Plan& plan, const spec::RuntimeSpec& runtime);
Emission EmitNemo(const spec::Plan& plan, const spec::RuntimeSpec& runtime);
Emission EmitTorchtitan(const spec::Plan& plan);
Emission EmitDeepspeed(const spec::Plan& plan, const spec::RuntimeSpec& runtime);
Emission EmitSlurm(const spec::Plan& plan, const spec::RuntimeSpec& runtime);

}  // namespace tessera::planner
