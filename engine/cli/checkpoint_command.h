// `tessera checkpoint`: a look inside checkpoints, their verification, and conversion from and to
// Hugging Face's form.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::engine {

// Adds the subcommand `checkpoint` with its own `inspect`, `verify` and `convert`. Parsing runs it
// and sets exit_code; errors leave as the exceptions of base/error.h.
void AddCheckpointCommand(CLI::App& app, int& exit_code);

}  // namespace tessera::engine
