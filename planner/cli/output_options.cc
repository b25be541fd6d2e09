#include "planner/cli/output_options.h"

#include <iostream>

#include "cost_model/base/check.h"
#include "cost_model/spec/spec_json.h"
#include "planner/cli/emit_options.h"

namespace tessera::planner {

void AddFormatOption(CLI::App& command, std::string& format) {
  command.add_option("--format", format, "table|json")->check(CLI::IsMember({"table", "json"}));
}

void AddQuietFlag(CLI::App& command, bool& quiet) {
  command.add_flag("--quiet", quiet, "No progress and no notes: the result and errors only");
}

void AddOutputOptions(CLI::App& command, OutputOptions& options) {
  AddFormatOption(command, options.format);
  command.add_option("--out", options.plan_path, "Write the plan to this file, for tessera train");
  AddEmitOptions(command, options.emit_target, options.emit_path);
  AddQuietFlag(command, options.quiet);
}

void Tell(const std::string& note, bool quiet) {
  if (!quiet) std::cerr << note << "\n";
}

spec::Plan PlanOf(const Request& request, const RankedLayout& chosen) {
  const cost_model::Job& job = request.job;
  spec::Plan plan;
  plan.model = job.model;
  plan.cluster = job.cluster;
  plan.training = job.training;
  plan.parallel = chosen.parallel;
  plan.num_devices = job.num_devices;
  plan.prediction = chosen.report;
  return plan;
}

void WriteChosenPlan(const Request& request, const RankedLayout& chosen,
                     const OutputOptions& options) {
  if (options.plan_path.empty()) return;
  spec::WritePlanFile(PlanOf(request, chosen), options.plan_path);
  Tell(base::Concat("plan written to ", options.plan_path, "; run it with: tessera train --plan ",
                    options.plan_path, " --data FILE"),
       options.quiet);
}

}  // namespace tessera::planner
