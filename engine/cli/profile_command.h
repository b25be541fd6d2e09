#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tessera::engine {

// Registers `profile`: measures this machine. `arguments` are those of the program, for the one of
// another device. The callback sets `exit_code`.
void AddProfileCommand(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code);

}  // namespace tessera::engine
