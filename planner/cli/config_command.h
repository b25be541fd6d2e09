// `tessera config`: the presets, and the import of other programs' model descriptions.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::planner {

void AddConfigCommand(CLI::App& app, int& exit_code);

}  // namespace tessera::planner
