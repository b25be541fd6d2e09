#include "planner/emit.h"

#include <array>
#include <utility>

#include "cost_model/base/check.h"

namespace tessera::planner {
namespace {

constexpr std::array<std::pair<EmitTarget, std::string_view>, 5> kTargets = {
    {{EmitTarget::kMegatron, "megatron"},
     {EmitTarget::kNemo, "nemo"},
     {EmitTarget::kTorchtitan, "torchtitan"},
     {EmitTarget::kDeepspeed, "deepspeed"},
     {EmitTarget::kSlurm, "slurm"}}};

}  // namespace

std::string_view ToString(EmitTarget target) {
  for (const auto& [value, name] : kTargets) {
    if (value == target) return name;
  }
  return "?";
}

std::optional<EmitTarget> EmitTargetFromString(std::string_view text) {
  for (const auto& [value, name] : kTargets) {
    if (name == text) return value;
  }
  return std::nullopt;
}

std::vector<std::string> EmitTargetNames() {
  std::vector<std::string> names;
  for (const auto& target : kTargets) names.emplace_back(target.second);
  return names;
}

Emission Emit(EmitTarget target, const spec::Plan& plan, const spec::RuntimeSpec& runtime) {
  switch (target) {
    case EmitTarget::kMegatron:
      return EmitMegatron(plan, runtime);
    case EmitTarget::kNemo:
      return EmitNemo(plan, runtime);
    case EmitTarget::kTorchtitan:
      return EmitTorchtitan(plan);
    case EmitTarget::kDeepspeed:
      return EmitDeepspeed(plan, runtime);
    case EmitTarget::kSlurm:
      return EmitSlurm(plan, runtime);
  }
  TESSERA_CHECK(false, "no such target");
  return {};
}

}  // namespace tessera::planner
