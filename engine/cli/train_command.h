#pragma once

#include <CLI/CLI.hpp>

namespace tessera::engine {

// Registers `train`: runs a plan. Its callback sets `exit_code`.
void AddTrainCommand(CLI::App& app, int& exit_code);

}  // namespace tessera::engine
