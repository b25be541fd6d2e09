// Flags of commands that print results, and what is told beside the result.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "planner/search.h"

namespace tessera::planner {

struct OutputOptions {
  std::string format = "table";
  std::string plan_path;  // --out; empty: no plan is written
  bool quiet = false;
  bool is_json() const { return format == "json"; }
};

void AddOutputOptions(CLI::App& command, OutputOptions& options);
void AddFormatOption(CLI::App& command, std::string& format);
void AddQuietFlag(CLI::App& command, bool& quiet);

// A note or progress on stderr; nothing if `quiet`.
void Tell(const std::string& note, bool quiet);

// Writes the chosen layout with its prediction as the plan file that `options` ask for, if any.
void WriteChosenPlan(const Request& request, const RankedLayout& chosen,
                     const OutputOptions& options);

}  // namespace tessera::planner
