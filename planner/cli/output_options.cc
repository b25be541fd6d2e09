#include "planner/cli/output_options.h"

#include <iostream>

#include "cost_model/spec/spec_json.h"

namespace tessera::planner {

void AddOutputOptions(CLI::App& command, OutputOptions& options) {
  command.add_option("--format", options.format, "table|json")
      ->check(CLI::IsMember({"table", "json"}));
  command.add_option("--out", options.plan_path, "Write the plan to this file, for tessera train");
  command.add_flag("--quiet", options.quiet, "Print errors only");
}

void TellInfeasible(const std::string& reason) {
  std::cerr << "tessera: error: " << reason << "\n";
}

void WriteChosenPlan(const Request& request, const RankedLayout& chosen, const std::string& path) {
  const cost_model::Job& job = request.job;
  spec::Plan plan;
  plan.model = job.model;
  plan.cluster = job.cluster;
  plan.training = job.training;
  plan.parallel = chosen.parallel;
  plan.num_devices = job.num_devices;
  plan.prediction = chosen.report;
  spec::WritePlanFile(plan, path);
}

}  // namespace tessera::planner
