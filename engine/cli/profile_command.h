#pragma once

#include <CLI/CLI.hpp>

namespace tessera::engine {

// Registers `profile`: measures this machine. Its callback sets `exit_code`.
void AddProfileCommand(CLI::App& app, int& exit_code);

}  // namespace tessera::engine
