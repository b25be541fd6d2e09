// Flags of commands that print results.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "planner/search.h"

namespace tessera::planner {

struct OutputOptions {
  std::string format = "table";
  std::string plan_path;  // --out; empty: no plan is written
  bool quiet = false;
  bool is_json() const { return format == "json"; }
};

void AddOutputOptions(CLI::App& command, OutputOptions& options);

// One line on stderr: why there is no layout to go on with. Printed even with --quiet.
void TellInfeasible(const std::string& reason);

// Writes the chosen layout with its prediction as a plan file.
void WriteChosenPlan(const Request& request, const RankedLayout& chosen, const std::string& path);

}  // namespace tessera::planner
