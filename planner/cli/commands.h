// The planner's commands. Each adds a subcommand to `app`; its callback prints the result and
// throws the errors of base/error.h, base::InfeasibleError where there is no layout to go on with.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::planner {

void AddPlanCommand(CLI::App& app);
void AddEstimateCommand(CLI::App& app);
// Many jobs, each with its best layout, and what a run on them takes.
void AddWhatIfCommand(CLI::App& app);
// Published measurements, priced and scored.
void AddValidateCommand(CLI::App& app);
// The presets, and the import of other programs' model descriptions.
void AddConfigCommand(CLI::App& app);

}  // namespace tessera::planner
