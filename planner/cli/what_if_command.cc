#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "planner/cli/commands.h"
#include "planner/cli/output_options.h"
#include "planner/cli/what_if_options.h"
#include "planner/what_if/what_if_json.h"

namespace tessera::planner {
namespace {

constexpr const char* kExamples = R"(Examples:
  tessera what-if --model llama3-70b --clusters dgx-h100,dgx-h200 --devices 256,512,1024
      --global-batch-sizes 1024,2048 --tokens 15T --json what-if.json
)";

// As typed, with quotes around what a shell would take apart.
std::string CommandLine() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string line = "tessera";
  bool is_program = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const bool is_plain = word.find_first_of(" \t\n\"'$&|;<>()*?[]#~`\\!") == std::string::npos;
    if (!is_program) line += is_plain && !word.empty() ? " " + word : " '" + word + "'";
    is_program = false;
    begin = end + 1;
  }
  return line;
}

int NumWorkers(const WhatIfOptions& options) {
  if (options.num_workers > 0) return options.num_workers;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void RunWhatIfCommand(const WhatIfOptions& options) {
  std::vector<std::string> notes;
  WhatIfRequest request = MakeWhatIfRequest(options, notes);
  request.command = CommandLine();
  for (const std::string& note : notes) Tell(note, options.quiet);
  SweepOptions sweep;
  sweep.num_workers = NumWorkers(options);
  const WhatIfResult result = RunWhatIf(request, sweep);
  const std::string document = WhatIfToJson(request, result).dump(2) + "\n";
  if (options.is_json()) std::cout << document;
  if (!options.json_path.empty()) spec::WriteFileAtomically(options.json_path, document);
}

}  // namespace

void AddWhatIfCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "what-if", "Sweep devices, clusters and batches: days, cost and best plan of each");
  const auto options = std::make_shared<WhatIfOptions>();
  AddWhatIfOptions(*command, *options);
  command->footer(kExamples);
  command->callback([options] { RunWhatIfCommand(*options); });
}

}  // namespace tessera::planner
