#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "planner/cli/commands.h"
#include "planner/cli/interrupt.h"
#include "planner/cli/output_options.h"
#include "planner/cli/sweep_progress.h"
#include "planner/cli/what_if_compare.h"
#include "planner/cli/what_if_options.h"
#include "planner/report/what_if_html_json.h"
#include "planner/what_if/what_if_csv.h"
#include "planner/what_if/what_if_json.h"
#include "planner/what_if/what_if_text.h"

namespace tessera::planner {
namespace {

constexpr const char* kWhatIfExamples = R"(Examples:
  tessera what-if --model llama3-70b --clusters dgx-h100,dgx-h200 --devices 256,512,1024
      --global-batch-sizes 1024,2048 --tokens 15T --csv points.csv --html report.html
  tessera what-if --model llama3-70b --clusters dgx-a100-80gb,dgx-h100 --tokens 15T --within 60d
      --global-batch-size 2048 --price dgx-a100-80gb=1.3,dgx-h100=2.5
  tessera what-if --model llama3-8b --clusters dgx-h100 --devices 128,256 --tokens 1T
      --budget 500k --price 2.5
  tessera what-if --model mixtral-8x7b --clusters dgx-h100 --devices 256
      --inter-node-bandwidths 0.5x,2x --nics-per-node 4,8 --format json
  tessera what-if --compare dgx-h100,dgx-h200 --model llama3-70b --devices 64
  tessera what-if --compare plan.json,metrics.jsonl
Ctrl-C keeps the points that are done (exit code 1). Exit code 3: no layout fits anywhere, or the
question has no answer.
)";

// As typed, with quotes around what a shell would take apart.
std::string CommandLine() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string line = "tessera";
  bool is_program = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    std::string word = text.substr(begin, end - begin);
    const bool is_plain = word.find_first_of(" \t\n\"'$&|;<>()*?[]#~`\\!") == std::string::npos;
    for (size_t i = word.find('\''); i != std::string::npos; i = word.find('\'', i + 4)) {
      word.replace(i, 1, R"('\'')");
    }
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

// Before minutes of work: a folder that is not there, or may not be written to.
void CheckWritable(const std::string& path, const char* flag) {
  if (path.empty()) return;
  const std::filesystem::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  if (std::filesystem::is_directory(file)) {
    throw base::ConfigError(flag, "", path + ", a folder", "a file");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    throw base::SystemError(
        base::Concat(flag, " ", path, ": cannot write to ", folder, ": ", std::strerror(errno)));
  }
}

void Deliver(const WhatIfOptions& options, const WhatIfRequest& request,
             const WhatIfResult& result) {
  const nlohmann::ordered_json document = WhatIfToJson(request, result);
  const std::string text = document.dump(2) + "\n";
  std::cout << (options.is_json() ? text : WhatIfText(request, result));
  if (!options.json_path.empty()) spec::WriteFileAtomically(options.json_path, text);
  if (!options.html_path.empty())
    spec::WriteFileAtomically(options.html_path, WhatIfHtml(document));
  if (!options.csv_path.empty()) spec::WriteFileAtomically(options.csv_path, WhatIfCsv(result));
}

// Exit codes for what is no answer, after all is delivered.
void ThrowUnlessAnswered(const WhatIfResult& result) {
  if (!result.is_complete) {
    throw base::SystemError("what-if: cancelled; what was done by then is kept");
  }
  for (const Answer& answer : result.answers) {
    if (!answer.is_feasible) throw base::InfeasibleError(answer.text);
  }
  for (const WhatIfPoint& point : result.points) {
    if (point.found.best) return;
  }
  if (!result.points.empty()) throw base::InfeasibleError(result.points.front().found.reason);
}

void RunWhatIfCommand(const WhatIfOptions& options) {
  CheckWritable(options.json_path, "--json");
  CheckWritable(options.csv_path, "--csv");
  CheckWritable(options.html_path, "--html");
  std::optional<Comparison> comparison;
  if (!options.compared.empty()) comparison = MakeComparison(options);
  std::vector<std::string> notes;
  WhatIfRequest request;
  // A comparison needs no sweep, but may come beside one.
  if (!comparison || !options.clusters.empty()) request = MakeWhatIfRequest(options, notes);
  request.command = CommandLine();
  for (const std::string& note : notes) Tell(note, options.quiet);
  WhatIfResult result;
  {
    const InterruptWatch interrupt;
    SweepProgressLine line;
    SweepOptions sweep;
    sweep.num_workers = NumWorkers(options);
    sweep.stop = interrupt.token();
    if (!options.quiet) {
      sweep.progress = [&](const SweepProgress& progress) { line.Show(progress); };
    }
    result = RunWhatIf(request, sweep);
    line.End();
  }
  if (comparison) {
    result.summary.insert(result.summary.begin(), comparison->sentence);
    result.comparison = std::move(comparison);
  }
  Deliver(options, request, result);
  ThrowUnlessAnswered(result);
}

}  // namespace

void AddWhatIfCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "what-if", "Sweep devices, clusters and batches: days, cost and best plan of each");
  const auto options = std::make_shared<WhatIfOptions>();
  AddWhatIfOptions(*command, *options);
  command->footer(kWhatIfExamples);
  command->callback([options] { RunWhatIfCommand(*options); });
}

}  // namespace tessera::planner
