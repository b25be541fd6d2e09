// The front door: planner commands run here, engine commands in the tessera-engine executable
// beside this one.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "cost_model/base/error.h"
#include "planner/cli/commands.h"

namespace tessera {
namespace {

constexpr const char* kExamples = R"(Examples:
  tessera plan --model gpt2-124m --cluster local-cpu --devices 4 --out plan.json
  tessera train --plan plan.json --data corpus.idx
  tessera estimate --model gpt3-175b --cluster dgx-a100-80gb --devices 1024 --tp 8 --pp 8
`tessera <command> --help` tells more.
)";

struct EngineCommand {
  const char* name;
  const char* description;
};
constexpr EngineCommand kEngineCommands[] = {
    {"train", "Run the training that a plan describes"},
    {"profile", "Measure this machine and its links; write a cluster file"},
    {"data", "Turn text into .bin/.idx token files, and look inside one"},
    {"checkpoint", "Convert, reshard, inspect and verify checkpoints"},
};

bool IsEngineCommand(const std::string& name) {
  for (const EngineCommand& command : kEngineCommands) {
    if (name == command.name) return true;
  }
  return false;
}

// Becomes tessera-engine. Returns only by throwing.
[[noreturn]] void RunEngine(int argc, char** argv) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string engine = (self.parent_path() / "tessera-engine").string();
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(nullptr);
  execv(engine.c_str(), arguments.data());
  throw base::SystemError("cannot run " + engine + ": " + std::strerror(errno));
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

void CheckCommandName(const CLI::App& app, const std::string& name) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == name) return;
    known += base::Concat(known.empty() ? "" : ", ", command->get_name());
  }
  throw base::ConfigError("command", "", base::Concat("\"", name, "\""),
                          base::Concat("one of ", known));
}

// A misspelt flag is told as such, and not as whatever the parser missed for it.
std::string ParseProblem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> left_over = app.remaining(true);
  if (left_over.empty()) return FirstLine(error.what());
  return base::Concat(left_over.front(),
                      ": found an unknown argument, expected one that --help shows");
}

int Run(int argc, char** argv) {
  if (argc > 1 && IsEngineCommand(argv[1])) RunEngine(argc, argv);
  CLI::App app("Plans and runs parallel Transformer training.", "tessera");
  app.require_subcommand(0, 1);
  app.footer(kExamples);
  planner::AddPlanCommand(app);
  planner::AddEstimateCommand(app);
  planner::AddWhatIfCommand(app);
  planner::AddValidateCommand(app);
  planner::AddConfigCommand(app);
  // For --help alone: these names were handled above.
  for (const EngineCommand& command : kEngineCommands) {
    app.add_subcommand(command.name, command.description);
  }
  try {
    if (argc > 1 && argv[1][0] != '-') CheckCommandName(app, argv[1]);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    throw base::ConfigError(ParseProblem(app, error));
  }
  if (app.get_subcommands().empty()) {
    throw base::ConfigError("no command given (`tessera --help` lists them)");
  }
  return base::kExitDone;
}

int Fail(const std::exception& error, int exit_code) {
  std::cerr << "tessera: error: " << FirstLine(error.what()) << "\n";
  return exit_code;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;  // NOLINT(google-build-using-namespace)
  try {
    return Run(argc, argv);
  } catch (const base::ConfigError& error) {
    return Fail(error, base::kExitWrongInput);
  } catch (const base::InfeasibleError& error) {
    return Fail(error, base::kExitInfeasible);
  } catch (const base::CommError& error) {
    return Fail(error, base::kExitPeerLost);
  } catch (const std::exception& error) {
    return Fail(error, base::kExitFailure);
  }
}
