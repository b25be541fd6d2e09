#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/step_warnings_json.h"
#include "planner/answer_text.h"
#include "planner/cli/commands.h"
#include "planner/cli/emit_options.h"
#include "planner/cli/job_options.h"
#include "planner/cli/output_options.h"
#include "planner/explanation.h"
#include "planner/result_json.h"
#include "planner/sensitivity.h"
#include "planner/text_format.h"
#include "planner/warnings.h"

namespace tessera::planner {
namespace {

constexpr const char* kPlanExamples = R"(Examples:
  tessera plan --model gpt3-175b --cluster dgx-a100-80gb --devices 1024 --global-batch-size 1536
  tessera plan --model llama3-8b --cluster dgx-h100 --devices 64 --tp 4 --out plan.json
  tessera plan --model gpt2-1.5b --cluster dgx-h100 --devices 8 --target tessera --out gpu-plan.json
  tessera plan --model mixtral-8x7b --cluster dgx-h100 --devices 64 --target torchtitan
  tessera plan --model llama3-70b --cluster dgx-h100 --devices 64 --objective memory --slack-percent 5
  tessera plan --model llama3-70b --cluster dgx-h100 --devices 256 --emit slurm --emit-out job.sh
  tessera plan --model config.json --cluster local-cpu --devices 4 --seq-length 256 --format json
  tessera plan --model gpt2-124m --cluster local-cpu --devices 2 --hidden-dropout 0.1
      --attention-dropout 0.1 --embedding-dropout 0.1 --out plan.json
)";

struct PlanOptions {
  JobOptions job;
  OutputOptions output;
  int num_rows = 10;
  std::string objective = "throughput";
  double slack_percent = 3;
};

// Everything that the command prints.
struct Answer {
  SearchResult search;
  double search_s = 0;
  std::optional<BestPractice> best_practice;
  std::vector<std::string> explanation;
  std::vector<Repair> repairs;
  std::vector<Sensitivity> sensitivities;
};

// The fewest device-hours: with half the devices, and half of those, as long as a step costs less.
// What is told of the search is told of the number of devices chosen.
void TakeCheapestDevices(Request& request, SearchResult& search, cost_model::JobCosts& costs) {
  const auto device_seconds = [](const Request& asked, const SearchResult& found) {
    return found.rows.front().report.step_time_s * asked.job.num_devices;
  };
  for (Request fewer = request; fewer.job.num_devices % 2 == 0;) {
    fewer.job.num_devices /= 2;
    cost_model::JobCosts fewer_costs(fewer.job);
    SearchResult found = Search(fewer, fewer_costs);
    if (found.rows.empty()) return;
    if (!search.rows.empty() && device_seconds(fewer, found) >= device_seconds(request, search)) {
      continue;
    }
    request = fewer;
    search = std::move(found);
    costs = std::move(fewer_costs);
  }
}

Answer FindAnswer(Request& request, bool is_quiet) {
  const auto start = std::chrono::steady_clock::now();
  cost_model::JobCosts costs(request.job);
  Answer answer;
  answer.search = Search(request, costs);
  if (request.objective == Objective::kCost) TakeCheapestDevices(request, answer.search, costs);
  answer.best_practice = PriceBestPractice(request, costs);
  if (answer.search.rows.empty()) {
    Tell("no layout fits; trying what would", is_quiet);
    answer.repairs = FindRepairs(request);
  } else {
    answer.explanation = Explain(request, answer.search, answer.best_practice);
    answer.sensitivities = FindSensitivities(request, answer.search);
    for (std::string& text : SensitivityTexts(answer.sensitivities)) {
      answer.explanation.push_back(std::move(text));
    }
  }
  answer.search_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return answer;
}

// The layout that plan.json and --emit take.
struct Chosen {
  const RankedLayout* layout = nullptr;
  std::optional<Emission> emission;
};

// The first of the ranking, or the first that the program to emit for can run. Throws
// base::InfeasibleError where it can run none.
Chosen Choose(const Request& request, const std::vector<RankedLayout>& rows,
              const OutputOptions& output) {
  Chosen chosen = {&rows.front(), std::nullopt};
  if (output.emit_target.empty()) return chosen;
  const EmitTarget target = *EmitTargetFromString(output.emit_target);
  const auto can_run = [&](const RankedLayout& row) {
    return Emit(target, PlanOf(request, row), request.job.runtime).violations.empty();
  };
  const auto first = std::find_if(rows.begin(), rows.end(), can_run);
  if (first != rows.end()) chosen.layout = &*first;
  if (first != rows.begin() && first != rows.end()) {
    Tell(base::Concat(output.emit_target, " cannot run the best ",
                      FormatPlural(first - rows.begin(), "layout"), ": taking number ",
                      first - rows.begin() + 1),
         output.quiet);
  }
  chosen.emission = EmitOrThrow(output.emit_target, PlanOf(request, *chosen.layout),
                                request.job.runtime, output.quiet);
  return chosen;
}

nlohmann::ordered_json AnswerToJson(const Request& request, const Answer& answer,
                                    const std::vector<std::string>& notes) {
  nlohmann::ordered_json document = RequestToJson(request);
  document["feasible"] = !answer.search.rows.empty();
  document.update(SearchToJson(answer.search, request.num_rows));
  document["search_s"] = answer.search_s;
  document["ties"] = TiesToJson(request, answer.search);
  document["sensitivity"] = SensitivitiesToJson(answer.sensitivities);
  if (answer.best_practice) document["best_practice"] = BestPracticeToJson(*answer.best_practice);
  document["explanation"] = answer.explanation;
  if (answer.search.rows.empty()) {
    document["repairs"] = RepairsToJson(answer.repairs);
  } else {
    document["warnings"] =
        spec::StepWarningsToJson(WarningsOf(request, answer.search.rows.front()));
  }
  document["notes"] = notes;
  return document;
}

void PrintText(const Request& request, const Answer& answer) {
  const SearchResult& search = answer.search;
  std::cout << RequestText(request) << "\n";
  std::cout << "For " << request.job.runtime.name << ". " << CountsText(search) << ", in "
            << FormatSeconds(answer.search_s) << ".\n\n";
  if (search.rows.empty()) {
    std::cout << "No layout fits.\n" << RejectionsText(search);
    if (answer.best_practice) std::cout << BestPracticeText(*answer.best_practice);
    std::cout << RepairsText(answer.repairs);
    return;
  }
  std::cout << RankingText(search.rows, request.num_rows, answer.best_practice) << "\n";
  for (const std::string& sentence : answer.explanation) std::cout << WrapText(sentence, "  - ");
  for (const spec::StepWarning& warning : WarningsOf(request, search.rows.front())) {
    std::cout << WrapText("Warning: " + spec::ToString(warning) + ".", "  - ");
  }
  if (!search.rejections.empty()) std::cout << "\n" << RejectionsText(search);
}

// The program that reads what is emitted: NeMo and the batch script run Megatron-LM.
std::optional<std::string> TargetOfEmission(const std::string& emit_target) {
  if (emit_target.empty()) return std::nullopt;
  return emit_target == "torchtitan" || emit_target == "deepspeed" ? emit_target : "megatron";
}

void RunPlan(const PlanOptions& options) {
  std::vector<std::string> notes;
  JobOptions job = options.job;
  if (!job.target) job.target = TargetOfEmission(options.output.emit_target);
  Request request = MakeRequest(job, notes);
  request.num_rows = options.num_rows;
  request.objective = *ObjectiveFromString(options.objective);
  request.slack_share = options.slack_percent / 100;
  for (const std::string& note : notes) Tell(note, options.output.quiet);
  const Answer answer = FindAnswer(request, options.output.quiet);
  const OutputOptions& output = options.output;
  Chosen chosen;
  if (!answer.search.rows.empty()) chosen = Choose(request, answer.search.rows, output);
  if (output.is_json()) {
    nlohmann::ordered_json document = AnswerToJson(request, answer, notes);
    if (chosen.emission) document["emit"] = EmissionToJson(*chosen.emission, output.emit_target);
    std::cout << document.dump(2) << "\n";
  } else if (!chosen.emission || !output.emits_to_stdout()) {
    PrintText(request, answer);
  }
  if (answer.search.rows.empty()) throw base::InfeasibleError(WhyNothingFits(answer.search));
  WriteChosenPlan(request, *chosen.layout, output);
  if (chosen.emission) DeliverEmission(*chosen.emission, output);
}

}  // namespace

void AddPlanCommand(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "Search the layouts of a model on a cluster, rank and explain");
  const auto options = std::make_shared<PlanOptions>();
  AddJobOptions(*command, options->job);
  command->add_option("--top", options->num_rows, "Rows of the ranking (default 10)")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--objective", options->objective,
                   "throughput|cost|memory: the least step time; the least device-hours, with "
                   "fewer devices too; the most memory left near the least step time")
      ->check(CLI::IsMember({"throughput", "cost", "memory"}));
  command
      ->add_option("--slack-percent", options->slack_percent,
                   "How much longer a step of the memory objective may take (default 3)")
      ->check(CLI::Range(0.0, 100.0));
  AddOutputOptions(*command, options->output);
  command->footer(kPlanExamples);
  command->callback([options] { RunPlan(*options); });
}

}  // namespace tessera::planner
