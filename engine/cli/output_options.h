#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tessera::engine {

// --format table or json, and --quiet.
void AddOutputOptions(CLI::App& command, std::string& format, bool& quiet);

}  // namespace tessera::engine
