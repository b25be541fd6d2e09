#include "engine/cli/train_command.h"

#include <iostream>
#include <memory>
#include <optional>

#include "cost_model/base/error.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/cli/comparison_table.h"
#include "engine/cli/device_choice.h"
#include "engine/cli/interrupt.h"
#include "engine/cli/local_launch.h"
#include "engine/cli/op_profile_table.h"
#include "engine/cli/train_flags.h"
#include "engine/cli/train_table.h"
#include "engine/comm/process_world.h"
#include "engine/pipeline/stopwatch.h"
#include "engine/train/comparison_json.h"
#include "engine/train/engine_limits.h"
#include "engine/train/metrics_json.h"
#include "engine/train/tensorboard.h"
#include "engine/train/train_job.h"

namespace tessera::engine {
namespace {

constexpr char kTrainExamples[] = R"(Examples:
  tessera train --plan plan.json --data corpus.bin --steps 200
  tessera train --plan plan.json --data corpus.bin --metrics run.jsonl --save ckpt --save-interval 100
  tessera train --plan plan.json --data corpus.bin --save ckpt --save-interval 100 --async-save \
                --keep-last 3 --on-save-error continue
  tessera train --plan plan.json --data corpus.bin --valid-data held-out.bin --eval-interval 100 \
                --on-spike skip --tensorboard runs/first
  tessera train --plan other-layout.json --data corpus.bin --resume ckpt --steps 400
  tessera train --plan plan.json --data tokens.u16 --data-format raw-u16 --data-order sequential \
                --init hf:gpt2/ --hyperparameters train.json --export-hf out/
  tessera train --plan plan.json --data 0.7 web 0.3 books --split 98,1,1
  tessera train --plan gpu-plan.json --data corpus.bin --device cuda --comm nccl --save ckpt
  tessera train --plan plan.json --data corpus.bin --check-replicas 100 --profile ops.json
  tessera train --compare-layouts one-rank.json tp2-pp2.json --data corpus.bin --steps 3
  tessera train --plan gpu-plan.json --data corpus.bin --device cuda   # ranks may share a GPU
  tessera train --plan plan.json --data corpus.bin --comm gloo         # each rank a process
  tessera train --plan plan.json --data corpus.bin --comm gloo --save ckpt --save-interval 100 \
                --restart 3
  torchrun --nnodes 2 --nproc-per-node 8 ... --no-python \
      tessera train --plan plan.json --data corpus.bin --comm gloo
Ctrl-C or SIGTERM finishes the step, saves (with --save) and leaves; a second one ends at once.)";

// Prints at most a line a second, and the first, the last and those with news.
class StepPrinter {
 public:
  explicit StepPrinter(bool quiet) : quiet_(quiet) {}

  void operator()(const StepRow& row) {
    if (first_step_ < 0) first_step_ = row.result.step - 1;
    const double now_s = watch_.seconds();
    constexpr double kMinimumIntervalS = 1;
    const bool is_news = row.validation_loss || row.result.skipped;
    const bool is_last = row.result.step == row.total_steps || row.result.stop;
    if (quiet_ ||
        (!is_last && !is_news && last_print_s_ >= 0 && now_s - last_print_s_ < kMinimumIntervalS)) {
      return;
    }
    PrintStep(row, now_s, first_step_, std::cerr);
    last_print_s_ = now_s;
  }

 private:
  bool quiet_;
  Stopwatch watch_;
  int64_t first_step_ = -1;
  double last_print_s_ = -1;
};

// Whether ranks are to be processes that this one starts and watches over.
bool IsLauncher(const TrainFlags& flags) {
  if (IsLaunched() || FindProcessRank(ReadEnvironment)) return false;
  return flags.options.comm == CommKind::kGloo || flags.num_restarts > 0;
}

bool IsWorthRestarting(int exit_code) {
  return exit_code != base::kExitDone && exit_code != base::kExitWrongInput &&
         exit_code != base::kExitInfeasible;
}

// Returns the exit code.
int Launch(const TrainFlags& flags, const std::vector<std::string>& arguments) {
  CheckExecutable(flags.options.plan);
  if (flags.options.comm == CommKind::kGloo && !HasProcessWorld()) {
    throw base::ConfigError("--comm", "", "gloo",
                            "thread: this is a build without Gloo (package libgloo-dev)");
  }
  const std::atomic<bool>& stop = CatchInterrupts();
  const bool is_gloo = flags.options.comm == CommKind::kGloo;
  LaunchOptions launch = {.arguments = arguments,
                          .num_ranks = is_gloo ? flags.options.plan.num_devices : 1};
  for (int restart = 1;; ++restart) {
    const LaunchResult result = RunLocalRanks(launch, stop, std::cout, std::cerr);
    if (result.exit_code == base::kExitDone) return result.exit_code;
    std::cerr << "tessera: " << Describe(result, launch.num_ranks) << std::endl;
    if (restart > flags.num_restarts || stop.load() || !IsWorthRestarting(result.exit_code)) {
      return result.exit_code;
    }
    const std::string checkpoint = NewestCheckpoint(flags.options.save_dir);
    if (!checkpoint.empty()) {
      launch.arguments = ResumingArguments(arguments, flags.options.save_dir);
    }
    std::cerr << "tessera: restart " << restart << " of " << flags.num_restarts << " from "
              << (checkpoint.empty() ? "the beginning" : checkpoint) << std::endl;
  }
}

TrainCallbacks PrintedMessages(bool quiet) {
  return {
      .on_step = {},
      .on_message =
          [quiet](const std::string& message) {
            if (!quiet) std::cerr << message << '\n';
          },
      .on_warning =
          [](const std::string& message) { std::cerr << "tessera: warning: " << message << '\n'; }};
}

// Returns whether both plans train the same.
bool RunComparison(const TrainFlags& flags) {
  TrainOptions a = flags.options, b = flags.options;
  a.plan = LoadPlan(flags.doctor.compared_plans.at(0), flags);
  b.plan = LoadPlan(flags.doctor.compared_plans.at(1), flags);
  const double tolerance =
      flags.doctor.tolerance.value_or(DefaultTolerance(a.plan.training.precision));
  std::optional<StepPrinter> printer;
  TrainCallbacks callbacks = PrintedMessages(flags.quiet);
  callbacks.on_step = [&](const StepRow& row) {
    if (row.result.step == 1) printer.emplace(flags.quiet);  // the other plan's turn
    (*printer)(row);
  };
  const LayoutComparison comparison = CompareLayouts(a, b, tolerance, callbacks, CatchInterrupts());
  if (flags.format == "json") {
    std::cout << WriteComparison(comparison) << '\n';
  } else {
    PrintComparison(comparison, std::cout);
  }
  return !comparison.first;
}

void RunPlan(TrainFlags& flags) {
  std::unique_ptr<MetricsWriter> metrics;
  std::unique_ptr<EventFile> events;
  // Of several processes the first one tells.
  const auto process = FindProcessRank(ReadEnvironment);
  const bool is_first = !process || process->rank == 0;
  if (is_first && !flags.metrics.empty()) {
    metrics = std::make_unique<MetricsWriter>(flags.metrics, !flags.options.resume_dir.empty());
  }
  if (is_first && !flags.loop.tensorboard.empty()) {
    events = std::make_unique<EventFile>(flags.loop.tensorboard);
  }
  StepPrinter printer(flags.quiet);
  TrainCallbacks callbacks = PrintedMessages(flags.quiet);
  callbacks.on_step = [&](const StepRow& row) {
    if (metrics) metrics->Write(row);
    if (events) events->Write(row.result.step, ScalarsOf(row));
    printer(row);
  };
  const TrainReport report = RunTraining(flags.options, callbacks, CatchInterrupts());
  if (!is_first) return;
  if (flags.format == "json") {
    std::cout << WriteTrainReport(report, flags.options.plan.prediction) << '\n';
  } else {
    PrintReport(report, flags.options.plan.prediction, std::cout);
    if (report.profile) PrintOpProfile(*report.profile, flags.options.plan, std::cout);
    for (const spec::StepWarning& warning : report.warnings) {
      std::cout << "\nWarning: " << spec::ToString(warning) << ".\n";
    }
  }
}

}  // namespace

void AddTrainCommand(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code) {
  auto* command = app.add_subcommand("train", "Run a plan");
  command->footer(kTrainExamples);
  auto flags = std::make_shared<TrainFlags>();
  AddTrainFlags(*command, *flags);
  command->callback([flags, arguments, &exit_code] {
    RunWhereDeviceIs(DeviceKindFromString(flags->device), arguments);
    Prepare(*flags);
    if (!flags->doctor.compared_plans.empty()) {
      exit_code = RunComparison(*flags) ? base::kExitDone : base::kExitFailure;
      return;
    }
    if (IsLauncher(*flags)) {
      exit_code = Launch(*flags, arguments);
      return;
    }
    RunPlan(*flags);
    exit_code = base::kExitDone;
  });
}

}  // namespace tessera::engine
