// The planner's commands. Each adds a subcommand to `app`; its callback sets `exit_code` and throws
// the errors of base/error.h.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::planner {

void AddPlanCommand(CLI::App& app, int& exit_code);
void AddEstimateCommand(CLI::App& app, int& exit_code);

}  // namespace tessera::planner
