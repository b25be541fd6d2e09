#include "planner/cli/emit_options.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"

namespace tessera::planner {
namespace {

using base::Concat;

// "ds_config.json" and ".args.txt" are "ds_config.args.txt".
std::string SecondPath(const std::string& path, const std::string& suffix) {
  const std::filesystem::path first(path);
  return (first.parent_path() / (first.stem().string() + suffix)).string();
}

}  // namespace

void AddEmitOptions(CLI::App& command, std::string& target, std::string& path) {
  command
      .add_option("--emit", target,
                  "megatron|nemo|torchtitan|deepspeed|slurm: the layout as that program's "
                  "arguments or configuration, printed instead of the table")
      ->check(CLI::IsMember(EmitTargetNames()));
  command.add_option("--emit-out", path, "Write what --emit makes to this file")
      ->needs(command.get_option("--emit"));
}

Emission EmitOrThrow(const std::string& target, const spec::Plan& plan,
                     const spec::RuntimeSpec& runtime, bool quiet) {
  Emission emission = Emit(*EmitTargetFromString(target), plan, runtime);
  if (!emission.violations.empty()) {
    std::string reasons;
    for (const spec::Violation& violation : emission.violations) {
      reasons += (reasons.empty() ? "" : "; ") + violation.message;
    }
    throw base::InfeasibleError(Concat(target, " cannot run this layout: ", reasons));
  }
  for (const std::string& warning : emission.warnings) {
    Tell(Concat("warning: ", target, ": ", warning), quiet);
  }
  return emission;
}

void DeliverEmission(const Emission& emission, const std::string& target, const std::string& path,
                     bool quiet) {
  const bool has_second = !emission.second_text.empty();
  if (path.empty()) {
    std::cout << emission.text;
    if (has_second) {
      Tell("the launcher's arguments are a file of their own, written where a file is named",
           quiet);
    }
    return;
  }
  spec::WriteFileAtomically(path, emission.text);
  Tell(Concat(target, " written to ", path), quiet);
  if (!has_second) return;
  const std::string second_path = SecondPath(path, emission.second_suffix);
  spec::WriteFileAtomically(second_path, emission.second_text);
  Tell(Concat("arguments of its launcher written to ", second_path), quiet);
}

void DeliverEmission(const Emission& emission, const OutputOptions& output) {
  if (output.is_json() && output.emits_to_stdout()) return;
  DeliverEmission(emission, output.emit_target, output.emit_path, output.quiet);
}

nlohmann::ordered_json EmissionToJson(const Emission& emission, const std::string& target) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  files.push_back({{"name_suffix", ""}, {"text", emission.text}});
  if (!emission.second_text.empty()) {
    files.push_back({{"name_suffix", emission.second_suffix}, {"text", emission.second_text}});
  }
  return {{"target", target}, {"files", files}, {"warnings", emission.warnings}};
}

}  // namespace tessera::planner
