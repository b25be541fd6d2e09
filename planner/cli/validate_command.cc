#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "cost_model/spec/spec_json.h"
#include "planner/cli/commands.h"
#include "planner/cli/output_options.h"
#include "planner/validation/figures.h"
#include "planner/validation/validation.h"
#include "planner/validation/validation_html.h"
#include "planner/validation/validation_json.h"
#include "planner/validation/validation_text.h"

namespace tessera::planner {
namespace {

constexpr const char* kValidateExamples = R"(Examples:
  tessera validate                                 the published rows that come along
  tessera validate --source vtrain --worst 20      those of one source
  tessera validate --rows mine.jsonl --html report.html
  tessera validate --format json
A row is one JSON object a line: id, model, hardware, layout, and what was measured; see
configs/measurements/README.md for the keys. Fields that a row leaves out are taken as the fastest
choice that fits. Without --rows and --source the recorded bounds are checked too: exit code 1
when one is broken.
)";

struct ValidateOptions {
  std::string rows;
  std::string source;
  std::string html;
  std::string format = "table";
  int num_worst = 10;
  bool quiet = false;
};

// The folder of the rows, rules and bounds that come along.
std::filesystem::path MeasurementsFolder() {
  const std::string rules = spec::PresetPath("measurements", "rules");
  if (rules.empty()) {
    throw base::SystemError("the folder configs/measurements is missing from this installation");
  }
  return std::filesystem::path(rules).parent_path();
}

std::vector<Measurement> ReadAllMeasurements(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<Measurement> measurements;
  for (const std::string& file : files) {
    for (Measurement& measurement : ReadMeasurements(file)) {
      measurements.push_back(std::move(measurement));
    }
  }
  return measurements;
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void KeepSource(const std::string& source, std::vector<Measurement>& measurements) {
  if (source.empty()) return;
  const std::string wanted = LowerCase(source);
  std::erase_if(measurements, [&](const Measurement& measurement) {
    return LowerCase(measurement.source).find(wanted) == std::string::npos;
  });
}

void RunValidate(const ValidateOptions& options) {
  const std::filesystem::path folder = MeasurementsFolder();
  JobMaker jobs(RowRules::Load((folder / "rules.json").string()));
  std::vector<Measurement> measurements =
      options.rows.empty() ? ReadAllMeasurements(folder) : ReadMeasurements(options.rows);
  KeepSource(options.source, measurements);
  if (measurements.empty()) {
    throw base::ConfigError(options.source.empty() ? options.rows : "--source", "", "no rows",
                            "at least one measurement");
  }
  const Validation validation = Validate(measurements, jobs);
  const bool is_bounded = options.rows.empty() && options.source.empty();
  std::vector<FigureBound> bounds;
  if (is_bounded) bounds = ReadFigureBounds((folder / "bounds.json").string());
  const std::vector<std::string> broken = FindBrokenBounds(FiguresOf(validation), bounds);
  if (options.format == "json") {
    std::cout << ValidationToJson(validation, is_bounded ? &broken : nullptr).dump(1) << "\n";
  } else {
    std::cout << ValidationText(validation, options.num_worst);
    if (is_bounded) std::cout << "\n" << BoundsText(bounds.size(), broken);
  }
  if (!options.html.empty()) {
    spec::WriteFileAtomically(options.html, ValidationHtml(validation));
    Tell("report written to " + options.html, options.quiet);
  }
  if (!broken.empty()) {
    throw base::SystemError("the cost model is worse than a recorded bound: " + broken.front());
  }
}

}  // namespace

void AddValidateCommand(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("validate", "Re-price published measurements and score the cost model");
  const auto options = std::make_shared<ValidateOptions>();
  command->add_option("--rows", options->rows,
                      "Measurements of your own, one JSON object a line; default: those of "
                      "configs/measurements");
  command->add_option("--source", options->source,
                      "Only rows whose source holds this text, whatever its case");
  command->add_option("--worst", options->num_worst, "How many of the worst rows to show")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--html", options->html, "Write a report with a scatter plot to this file");
  AddFormatOption(*command, options->format);
  AddQuietFlag(*command, options->quiet);
  command->footer(kValidateExamples);
  command->callback([options] { RunValidate(*options); });
}

}  // namespace tessera::planner
