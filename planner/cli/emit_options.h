// The flags that turn a plan into another program's files, and what becomes of those.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/cli/output_options.h"
#include "planner/emit.h"

namespace tessera::planner {

// --emit and --emit-out.
void AddEmitOptions(CLI::App& command, std::string& target, std::string& path);

// The emission for `target`, a name that AddEmitOptions let pass. Tells its warnings on stderr
// unless `quiet`. Throws base::InfeasibleError with the reasons when the program cannot run it.
Emission EmitOrThrow(const std::string& target, const spec::Plan& plan,
                     const spec::RuntimeSpec& runtime, bool quiet);

// Writes the file or files, or prints the first where `path` is empty.
void DeliverEmission(const Emission& emission, const std::string& target, const std::string& path,
                     bool quiet);
// The same as the flags of plan and estimate say; nothing where it stands in their JSON already.
void DeliverEmission(const Emission& emission, const OutputOptions& output);

// `target`, `files` (a list of `name_suffix` and `text`) and `warnings`.
nlohmann::ordered_json EmissionToJson(const Emission& emission, const std::string& target);

}  // namespace tessera::planner
