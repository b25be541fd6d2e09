#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tessera::engine {

// Registers `train`: runs a plan. Its callback sets `exit_code`.
// `arguments`: of the process, for the executable of another device.
void AddTrainCommand(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code);

}  // namespace tessera::engine
