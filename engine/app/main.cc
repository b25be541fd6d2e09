// tessera-engine: the commands that train, and those that need the engine's kernels and files. The
// front door `tessera` runs it.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/cli/checkpoint_command.h"
#include "engine/cli/data_command.h"
#include "engine/cli/profile_command.h"
#include "engine/cli/train_command.h"

namespace {

using namespace tessera;

int Fail(const std::string& message, int exit_code) {
  std::cerr << "tessera: error: " << message.substr(0, message.find('\n')) << '\n';
  return exit_code;
}

// A misspelt flag is told as such, and not as whatever the parser missed for it.
std::string ParseProblem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> left_over = app.remaining(true);
  if (left_over.empty()) return error.what();
  return left_over.front() + ": found an unknown argument, expected one that --help shows";
}

int Run(int argc, char** argv) {
  CLI::App app("Parallel Transformer training: the engine", "tessera");
  app.require_subcommand(1);
  int exit_code = base::kExitDone;
  engine::AddTrainCommand(app, {argv, argv + argc}, exit_code);
  engine::AddProfileCommand(app, {argv, argv + argc}, exit_code);
  engine::AddDataCommand(app, exit_code);
  engine::AddCheckpointCommand(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return Fail(ParseProblem(app, error), base::kExitWrongInput);
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const base::ConfigError& error) {
    return Fail(error.what(), base::kExitWrongInput);
  } catch (const base::InfeasibleError& error) {
    return Fail(error.what(), base::kExitInfeasible);
  } catch (const base::CommError& error) {
    return Fail(error.what(), base::kExitPeerLost);
  } catch (const std::exception& error) {
    return Fail(error.what(), base::kExitFailure);
  }
}
