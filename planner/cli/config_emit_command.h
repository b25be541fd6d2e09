// `tessera config emit`.
#pragma once

#include <CLI/CLI.hpp>

namespace tessera::planner {

void AddConfigEmitCommand(CLI::App& config);

}  // namespace tessera::planner
