#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "cost_model/spec/step_warnings_json.h"
#include "cost_model/spec/trace_json.h"
#include "cost_model/step_timeline.h"
#include "planner/answer_text.h"
#include "planner/cli/commands.h"
#include "planner/cli/emit_options.h"
#include "planner/cli/job_options.h"
#include "planner/cli/output_options.h"
#include "planner/explanation.h"
#include "planner/memory_text.h"
#include "planner/result_json.h"
#include "planner/search_space.h"
#include "planner/text_format.h"
#include "planner/warnings.h"

namespace tessera::planner {
namespace {

constexpr const char* kEstimateExamples = R"(Examples:
  tessera estimate --model gpt3-175b --cluster dgx-a100-80gb --devices 1024 --tp 8 --pp 8
      --global-batch-size 1536 --sequence-parallel true
  tessera estimate --model gpt3-175b --cluster dgx-a100-80gb --devices 1024 --tp 8 --pp 8
      --sequence-parallel true --emit megatron > arguments.txt
  tessera estimate --model llama3-8b --cluster dgx-h100 --tp 4 --dp 2 --recompute full --format json
  tessera estimate --model llama2-13b --cluster dgx-a100-80gb --tp 2 --pp 2 --dp 2 --memory
  tessera estimate --model llama3-8b --cluster dgx-h100 --pp 4 --dp 2 --trace predicted.json
)";

struct EstimateOptions {
  JobOptions job;
  OutputOptions output;
  bool shows_memory = false;
  std::string trace_path;
  std::string measured_trace_path;
};

// The predicted step, beside a measured one if there is one.
void WriteTrace(cost_model::JobCosts& costs, const spec::ParallelSpec& parallel,
                const EstimateOptions& options) {
  const std::string& measured = options.measured_trace_path;
  const std::string measured_events = measured.empty() ? "" : spec::LoadTraceEvents(measured);
  std::vector<spec::TraceProcess> processes;
  for (spec::RankTimeline& timeline : cost_model::PredictTimelines(costs, parallel)) {
    const auto stage = static_cast<int>(processes.size());
    processes.push_back({.name = base::Concat("predicted stage ", stage),
                         .is_predicted = true,
                         .rank = stage,
                         .pipeline_stage = stage,
                         .timeline = std::move(timeline)});
  }
  spec::WriteFileAtomically(options.trace_path, spec::TraceText(processes, measured_events));
  Tell(base::Concat("trace written to ", options.trace_path,
                    "; open it in ui.perfetto.dev or chrome://tracing"),
       options.output.quiet);
}

void PrintText(const Request& request, const RankedLayout& layout,
               const std::vector<spec::Violation>& violations, const std::vector<Repair>& repairs) {
  std::cout << RequestText(request) << "\n";
  std::cout << "Layout: " << LayoutText(layout.parallel) << "\n\n";
  if (layout.report.step_time_s > 0) std::cout << BreakdownText(layout, request) << "\n";
  if (violations.empty()) {
    std::cout << WrapText(MemoryText(request, layout), "");
    for (const spec::StepWarning& warning : WarningsOf(request, layout)) {
      std::cout << WrapText("Warning: " + spec::ToString(warning) + ".", "");
    }
    return;
  }
  std::cout << "Infeasible:\n";
  for (const spec::Violation& violation : violations) {
    std::cout << WrapText(base::Concat(violation.constraint, ": ", violation.message, "."), "  - ");
  }
  std::cout << RepairsText(repairs, layout.report.step_time_s);
}

std::string WhyInfeasible(const std::vector<spec::Violation>& violations) {
  std::string reason;
  for (const spec::Violation& violation : violations) {
    reason += (reason.empty() ? "the layout is infeasible: " : "; ") + violation.message;
  }
  return reason;
}

void RunEstimate(const EstimateOptions& options) {
  std::vector<std::string> notes;
  Request request = MakeRequest(options.job, notes);
  for (const std::string& note : notes) Tell(note, options.output.quiet);
  const spec::ParallelSpec parallel = PlainLayout(request);
  cost_model::JobCosts costs(request.job);
  cost_model::StepPrice price = PriceLayout(request, parallel, costs);
  const RankedLayout layout{parallel, std::move(price.report)};
  std::vector<Repair> repairs;
  if (!price.violations.empty()) {
    PinLayout(parallel, request);
    repairs = FindRepairs(request);
  }
  const OutputOptions& output = options.output;
  std::optional<Emission> emission;
  if (price.violations.empty() && !output.emit_target.empty()) {
    emission =
        EmitOrThrow(output.emit_target, PlanOf(request, layout), request.job.runtime, output.quiet);
  }
  if (options.output.is_json()) {
    nlohmann::ordered_json document = RequestToJson(request);
    document.update(LayoutToJson(parallel, layout.report, price.violations));
    if (!price.violations.empty()) document["repairs"] = RepairsToJson(repairs);
    if (emission) document["emit"] = EmissionToJson(*emission, output.emit_target);
    if (price.violations.empty()) {
      document["warnings"] = spec::StepWarningsToJson(WarningsOf(request, layout));
    }
    document["notes"] = notes;
    std::cout << document.dump(2) << "\n";
  } else if (!emission || !output.emits_to_stdout()) {
    PrintText(request, layout, price.violations, repairs);
    if (options.shows_memory && !layout.report.stages.empty()) {
      std::cout << "\n" << MemoryTermsText(request, layout);
    }
  }
  if (!price.violations.empty()) throw base::InfeasibleError(WhyInfeasible(price.violations));
  WriteChosenPlan(request, layout, options.output);
  if (!options.trace_path.empty()) WriteTrace(costs, parallel, options);
  if (emission) DeliverEmission(*emission, output);
}

}  // namespace

void AddEstimateCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("estimate", "Price one given layout");
  const auto options = std::make_shared<EstimateOptions>();
  AddJobOptions(*command, options->job);
  AddOutputOptions(*command, options->output);
  command->add_flag("--memory", options->shows_memory,
                    "The fullest stage's memory term by term, and a layer tensor by tensor");
  CLI::Option* trace =
      command->add_option("--trace", options->trace_path,
                          "Write the simulated step as a Chrome/Perfetto trace here: a process for "
                          "each pipeline stage, its memory as a counter");
  command
      ->add_option("--trace-measured", options->measured_trace_path,
                   "A trace that tessera train wrote: its events go into the same file")
      ->needs(trace);
  command->footer(kEstimateExamples);
  command->callback([options] { RunEstimate(*options); });
}

}  // namespace tessera::planner
