// `tessera data`: text to indexed token data, and a look inside token files.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::engine {

// Adds the subcommand `data` with its own `build` and `inspect`. Parsing runs it and sets
// exit_code; errors leave as the exceptions of base/error.h.
void AddDataCommand(CLI::App& app, int& exit_code);

}  // namespace tessera::engine
