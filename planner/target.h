// The program that a plan is for.
#pragma once

#include <optional>
#include <string>

#include "planner/request.h"

namespace tessera::planner {

// Sets the runtime that prices the job and the limits of the program: a preset of configs/targets
// ("tessera", "megatron", "torchtitan", "deepspeed"), or a runtime's preset or file, without
// further limits.
void LoadTarget(const std::string& name, Request& request);

// The first thing about a layout that the program cannot run, if any. Constraints are "target
// schedule", "target zero stage", "target context parallelism", "target context kind", "target
// expert parallelism", "target uneven stages", "target per-stage recomputation", "target optimizer
// offload" and "target overlap"; of our own engine "not executed" too.
std::optional<spec::Violation> FindTargetViolation(const Request& request,
                                                   const spec::ParallelSpec& parallel);

// Of these what our own engine does not execute; none for another program.
std::optional<spec::Violation> FindEngineViolation(const Request& request,
                                                   const spec::ParallelSpec& parallel);

}  // namespace tessera::planner
