// Flags of commands that print results, and what is told beside the result.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "planner/emit.h"
#include "planner/search.h"

namespace tessera::planner {

struct OutputOptions {
  std::string format = "table";
  std::string plan_path;    // --out; empty: no plan is written
  std::string emit_target;  // --emit; empty: nothing is emitted
  std::string emit_path;    // --emit-out; empty: standard output, in place of the table
  bool quiet = false;
  bool is_json() const { return format == "json"; }
  bool emits_to_stdout() const { return !emit_target.empty() && emit_path.empty(); }
};

void AddOutputOptions(CLI::App& command, OutputOptions& options);
void AddFormatOption(CLI::App& command, std::string& format);
void AddQuietFlag(CLI::App& command, bool& quiet);

// A note or progress on stderr; nothing if `quiet`.
void Tell(const std::string& note, bool quiet);

// The chosen layout with its prediction as a plan.
spec::Plan PlanOf(const Request& request, const RankedLayout& chosen);

// Writes the plan file that `options` ask for, if any.
void WriteChosenPlan(const Request& request, const RankedLayout& chosen,
                     const OutputOptions& options);

}  // namespace tessera::planner
