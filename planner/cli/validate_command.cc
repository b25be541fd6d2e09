#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "planner/cli/commands.h"
#include "planner/cli/output_options.h"
#include "planner/validation/validation.h"
#include "planner/validation/validation_json.h"
#include "planner/validation/validation_text.h"

namespace tessera::planner {
namespace {

constexpr const char* kExamples = R"(Examples:
  tessera validate --rows mine.jsonl --worst 20
  tessera validate --rows mine.jsonl --format json
)";

struct ValidateOptions {
  std::string rows;
  std::string format = "table";
  int num_worst = 10;
  bool quiet = false;
};

void RunValidate(const ValidateOptions& options) {
  if (options.rows.empty()) throw base::ConfigError("--rows is required");
  JobMaker jobs(RowRules::Load(spec::PresetPath("measurements", "rules")));
  const Validation validation = Validate(ReadMeasurements(options.rows), jobs);
  if (options.format == "json") {
    std::cout << ValidationToJson(validation).dump(1) << "\n";
  } else {
    std::cout << ValidationText(validation, options.num_worst);
  }
}

}  // namespace

void AddValidateCommand(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("validate", "Re-price published measurements and score the cost model");
  const auto options = std::make_shared<ValidateOptions>();
  command->add_option("--rows", options->rows, "Measurements, one JSON object a line");
  command->add_option("--worst", options->num_worst, "Worst rows to show")
      ->check(CLI::NonNegativeNumber);
  AddFormatOption(*command, options->format);
  AddQuietFlag(*command, options->quiet);
  command->footer(kExamples);
  command->callback([options] { RunValidate(*options); });
}

}  // namespace tessera::planner
