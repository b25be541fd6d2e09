#include "engine/cli/train_command.h"

#include <iostream>
#include <memory>
#include <optional>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/cli/comparison_table.h"
#include "engine/cli/device_choice.h"
#include "engine/cli/doctor_flags.h"
#include "engine/cli/interrupt.h"
#include "engine/cli/local_launch.h"
#include "engine/cli/loop_flags.h"
#include "engine/cli/op_profile_table.h"
#include "engine/cli/train_table.h"
#include "engine/comm/process_world.h"
#include "engine/data/data_format.h"
#include "engine/pipeline/stopwatch.h"
#include "engine/train/comparison_json.h"
#include "engine/train/engine_limits.h"
#include "engine/train/metrics_json.h"
#include "engine/train/tensorboard.h"
#include "engine/train/train_job.h"

namespace tessera::engine {
namespace {

constexpr char kExamples[] = R"(Examples:
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

constexpr int64_t kMaxSteps = 1'000'000'000;
constexpr int kMaxThreads = 1024;
constexpr int kMaxTimeoutS = 1'000'000;
constexpr int kMaxRanks = 1 << 20;
constexpr int kMaxRestarts = 1'000'000;

struct Flags {
  std::string plan;
  std::string hyperparameters;
  std::string init = "random";
  std::string metrics;
  std::string comm;
  int num_ranks = 0;
  int num_restarts = 0;
  std::string device = "cpu";
  std::string format = "table";
  int64_t steps = 0;
  int threads_per_rank = 0;
  bool quiet = false;
  std::vector<std::string> data;
  std::string split;
  std::string data_format = "auto";
  std::string data_order = "shuffled";
  std::string on_save_error = "stop";
  LoopFlags loop;
  TrainOptions options;
  DoctorFlags doctor;
};

void AddDataFlags(CLI::App& command, Flags& flags) {
  command
      .add_option("--data,--data-path", flags.data,
                  "Token file, or prefix of a .bin/.idx pair; or several, each behind its weight, "
                  "as Megatron-LM blends them; without weights each counts by its samples")
      ->required();
  command.add_option("--split", flags.split,
                     "Shares of training, validation and test documents, as 98,1,1 (default: all "
                     "data is for training)");
  command
      .add_option("--data-format", flags.data_format,
                  "auto, idx, raw-u8, raw-u16, raw-i32 or llmc; auto goes by magic number and name")
      ->capture_default_str();
  command
      .add_option("--data-order", flags.data_order,
                  "shuffled (as Megatron-LM's GPT dataset, laid out for --steps) or sequential")
      ->capture_default_str();
}

void AddCheckpointFlags(CLI::App& command, CLI::Option& save, Flags& flags) {
  command
      .add_flag("--async-save", flags.options.async_save,
                "Write checkpoints while training goes on, from a copy in host memory: 12 bytes "
                "for each parameter that a rank saves")
      ->needs(&save);
  command
      .add_option("--keep-last", flags.options.keep_last,
                  "Keep so many checkpoints; older ones go once a new one is on the disk (0: all)")
      ->check(CLI::Range(int64_t{0}, kMaxSteps))
      ->needs(&save);
  command
      .add_option("--on-save-error", flags.on_save_error,
                  "When the disk fails a checkpoint on the way: stop, or continue with a warning; "
                  "at the end of the run it always counts as a failure")
      ->check(CLI::IsMember({"stop", "continue"}))
      ->capture_default_str()
      ->needs(&save);
}

void AddStateFlags(CLI::App& command, Flags& flags) {
  CLI::Option* const init =
      command.add_option("--init", flags.init, "random, hf:DIR or checkpoint:DIR (weights alone)")
          ->capture_default_str();
  command
      .add_option("--resume", flags.options.resume_dir,
                  "Go on from this checkpoint, or the newest whole one in this folder: a torn or "
                  "damaged one is passed over with a warning")
      ->excludes(init);
  CLI::Option* const save =
      command.add_option("--save", flags.options.save_dir, "Folder for checkpoints");
  command
      .add_option("--save-interval", flags.options.save_interval,
                  "Save every so many steps (0: at the end)")
      ->check(CLI::Range(int64_t{0}, kMaxSteps))
      ->needs(save);
  AddCheckpointFlags(command, *save, flags);
  command.add_option("--export-hf", flags.options.export_hf_dir,
                     "Write the trained model in Hugging Face form here");
}

void AddRunFlags(CLI::App& command, Flags& flags) {
  command.add_option("--plan", flags.plan, "Plan file of `tessera plan --out`");
  command.add_option("--hyperparameters", flags.hyperparameters,
                     "JSON with lr, min_lr, steps, hidden_dropout, ... over those of the plan");
  command.add_option("--steps", flags.steps, "Train up to this step")
      ->check(CLI::Range(int64_t{1}, kMaxSteps));
  command.add_option("--metrics", flags.metrics, "Write a JSON line for each step here");
  command.add_option("--trace", flags.options.trace_path,
                     "Write the last step as a Chrome/Perfetto trace here");
  command
      .add_option("--threads-per-rank", flags.threads_per_rank,
                  "CPU threads of a rank (0: the plan's, or cores / ranks)")
      ->check(CLI::Range(0, kMaxThreads));
  command.add_option("--device", flags.device, "What the ranks compute on: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command.add_flag("--cuda-graph", flags.options.cuda_graph,
                   "Capture the passes of a step once and launch them as one graph at every step: "
                   "for small models, where the calls of the host take longer than the GPU");
  command.add_option("--format", flags.format, "Closing report: table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  command.add_flag("--quiet", flags.quiet, "No line for each step");
}

void AddProcessFlags(CLI::App& command, Flags& flags) {
  command
      .add_option("--comm", flags.comm,
                  "thread: through this process's memory, so that ranks may share a GPU; gloo: "
                  "over TCP, each rank a process; nccl: from GPU to GPU, one rank on each "
                  "(default: thread, or gloo for CPU ranks that a launcher has started)")
      ->check(CLI::IsMember({"thread", "gloo", "nccl"}));
  command
      .add_option("-n,--ranks", flags.num_ranks,
                  "Ranks to start on this host: as many as the plan has devices (0: as it has)")
      ->check(CLI::Range(0, kMaxRanks));
  command
      .add_option("--restart", flags.num_restarts,
                  "Start again from the newest checkpoint of --save up to so many times after a "
                  "failure")
      ->check(CLI::Range(0, kMaxRestarts))
      ->needs("--save");
  command
      .add_option("--timeout", flags.options.timeout_s,
                  "Seconds after which a rank gives up waiting for another")
      ->check(CLI::Range(1, kMaxTimeoutS))
      ->capture_default_str();
  command
      .add_option("--init-timeout", flags.options.init_timeout_s,
                  "Seconds until all processes of a run must have met")
      ->check(CLI::Range(1, kMaxTimeoutS))
      ->capture_default_str();
  command.add_flag("--check-comm", flags.options.checks_calls,
                   "Compare what ranks call before each operation (gloo): slower, and names "
                   "both sides at once where they differ");
  command.add_option("--interface", flags.options.interface,
                     "Network interface for gloo (default: the one by which rank 0 is reached)");
  command.add_option("--flight-record", flags.options.record_folder,
                     "Folder for each rank's last 256 operations, written when a run over gloo "
                     "fails (default: that of --save, else the current one)");
}

void ParseInit(const std::string& init, TrainOptions& options) {
  const auto after = [&](const std::string& prefix) {
    return init.rfind(prefix, 0) == 0 ? init.substr(prefix.size()) : std::string();
  };
  options.init_hf_dir = after("hf:");
  options.init_checkpoint_dir = after("checkpoint:");
  if (init != "random" && options.init_hf_dir.empty() && options.init_checkpoint_dir.empty()) {
    throw base::ConfigError("--init", "", "\"" + init + "\"", "random, hf:DIR or checkpoint:DIR");
  }
}

void ParseData(Flags& flags) {
  TrainOptions& options = flags.options;
  options.data_blend = BlendFromWords(flags.data);
  if (options.data_blend.size() == 1 && options.data_blend.front().weight == 0) {
    options.data_path = options.data_blend.front().path;
    options.data_blend.clear();
  }
  if (!flags.split.empty()) options.data_split = DataSplitFromString(flags.split);
  options.data_format = DataFormatFromString(flags.data_format);
  options.data_order = DataOrderFromString(flags.data_order);
}

spec::Plan LoadPlan(const std::string& path, const Flags& flags) {
  spec::Plan plan = spec::ReadPlan(path);
  if (!flags.hyperparameters.empty()) {
    spec::LoadHyperparameters(flags.hyperparameters, plan.training);
  }
  if (flags.steps > 0) plan.training.steps = flags.steps;
  if (flags.threads_per_rank > 0) plan.threads_per_rank = flags.threads_per_rank;
  return plan;
}

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

// What ranks talk over: as --comm says, else by who has started them.
CommKind ChooseComm(const Flags& flags, const std::optional<ProcessRank>& process) {
  if (!flags.comm.empty()) return CommKindFromString(flags.comm);
  const bool is_cpu_process = process && DeviceKindFromString(flags.device) == DeviceKind::kCpu;
  return is_cpu_process ? CommKind::kGloo : CommKind::kThread;
}

// Prepares the options; whatever is wrong with them comes out here.
void Prepare(Flags& flags) {
  ParseInit(flags.init, flags.options);
  ParseData(flags);
  flags.options.device = DeviceKindFromString(flags.device);
  flags.options.comm = ChooseComm(flags, FindProcessRank(ReadEnvironment));
  flags.options.on_save_error = OnSaveErrorFromString(flags.on_save_error);
  if (!flags.doctor.compared_plans.empty()) return;  // they are read where they are compared
  if (flags.plan.empty()) {
    throw base::ConfigError("--plan", "", "none", "a plan file of `tessera plan --out`");
  }
  flags.options.plan = LoadPlan(flags.plan, flags);
  ApplyLoopFlags(flags.loop, flags.options);
  const int num_devices = flags.options.plan.num_devices;
  if (flags.num_ranks > 0 && flags.num_ranks != num_devices) {
    throw base::ConfigError("-n", "", std::to_string(flags.num_ranks),
                            base::Concat(num_devices, ", as many as the plan has devices"));
  }
  // A rank alone talks to nobody.
  if (num_devices == 1 && flags.options.comm == CommKind::kGloo) {
    flags.options.comm = CommKind::kThread;
  }
  if (flags.options.record_folder.empty()) {
    flags.options.record_folder = flags.options.save_dir.empty() ? "." : flags.options.save_dir;
  }
}

// Whether ranks are to be processes that this one starts and watches over.
bool IsLauncher(const Flags& flags) {
  if (IsLaunched() || FindProcessRank(ReadEnvironment)) return false;
  return flags.options.comm == CommKind::kGloo || flags.num_restarts > 0;
}

bool IsWorthRestarting(int exit_code) {
  return exit_code != base::kExitDone && exit_code != base::kExitWrongInput &&
         exit_code != base::kExitInfeasible;
}

// Returns the exit code.
int Launch(const Flags& flags, const std::vector<std::string>& arguments) {
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
bool RunComparison(const Flags& flags) {
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

void RunPlan(Flags& flags) {
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
  command->footer(kExamples);
  auto flags = std::make_shared<Flags>();
  AddRunFlags(*command, *flags);
  AddDataFlags(*command, *flags);
  AddStateFlags(*command, *flags);
  AddDoctorFlags(*command, flags->doctor, flags->options);
  AddProcessFlags(*command, *flags);
  AddLoopFlags(*command, flags->loop, flags->options);
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
