// Environment variables of NCCL, CUDA and PyTorch that a plan asks for, each with its reason.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/plan.h"
#include "planner/emit.h"

namespace tessera::planner {

struct EnvironmentHint {
  std::string name;
  std::string value;   // empty: the variable must not be set
  std::string reason;  // one or two sentences
  // Whether the value is of the plan itself; else the user's machine has to give it, and `value` is
  // an example.
  bool is_settled = true;
};

std::vector<EnvironmentHint> EnvironmentOf(const spec::Plan& plan, EmitTarget target);

// Shell lines: each reason as a comment, then "export NAME=value"; an unsettled one is commented
// out. `prefix` stands before each line.
std::string EnvironmentText(const std::vector<EnvironmentHint>& hints, const std::string& prefix);

}  // namespace tessera::planner
