#include "engine/cli/train_flags.h"

#include <optional>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "engine/comm/launch_environment.h"
#include "engine/data/data_format.h"

namespace tessera::engine {
namespace {

constexpr int64_t kMaxSteps = 1'000'000'000;
constexpr int kMaxThreads = 1024;
constexpr int kMaxTimeoutS = 1'000'000;
constexpr int kMaxRanks = 1 << 20;
constexpr int kMaxRestarts = 1'000'000;

void AddDataFlags(CLI::App& command, TrainFlags& flags) {
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

void AddCheckpointFlags(CLI::App& command, CLI::Option& save, TrainFlags& flags) {
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

void AddStateFlags(CLI::App& command, TrainFlags& flags) {
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

void AddRunFlags(CLI::App& command, TrainFlags& flags) {
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

void AddProcessFlags(CLI::App& command, TrainFlags& flags) {
  command
      .add_option("--comm", flags.comm,
                  "thread: through this process's memory, so that ranks may share a GPU; gloo: "
                  "each rank a process, over TCP and shared memory; nccl: from GPU to GPU, one "
                  "rank on each "
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
                  "Seconds after which a rank gives up waiting for another, or for its disk")
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
  command
      .add_option("--host-link", flags.host_link,
                  "Between processes (gloo) of a group that are all on one host: shm, through "
                  "shared memory, or tcp")
      ->check(CLI::IsMember({"shm", "tcp"}))
      ->capture_default_str();
  command.add_option("--flight-record", flags.options.record_folder,
                     "Folder for each rank's last 256 operations over thread or gloo, written when "
                     "a run fails (default: that of --save, else the current one)");
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

void ParseData(TrainFlags& flags) {
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

// What ranks talk over: as --comm says, else by who has started them.
CommKind ChooseComm(const TrainFlags& flags, const std::optional<ProcessRank>& process) {
  if (!flags.comm.empty()) return CommKindFromString(flags.comm);
  const bool is_cpu_process = process && DeviceKindFromString(flags.device) == DeviceKind::kCpu;
  return is_cpu_process ? CommKind::kGloo : CommKind::kThread;
}

}  // namespace

void AddTrainFlags(CLI::App& command, TrainFlags& flags) {
  AddRunFlags(command, flags);
  AddDataFlags(command, flags);
  AddStateFlags(command, flags);
  AddDoctorFlags(command, flags.doctor, flags.options);
  AddProcessFlags(command, flags);
  AddLoopFlags(command, flags.loop, flags.options);
}

spec::Plan LoadPlan(const std::string& path, const TrainFlags& flags) {
  spec::Plan plan = spec::ReadPlan(path);
  if (!flags.hyperparameters.empty()) {
    spec::LoadHyperparameters(flags.hyperparameters, plan.training);
  }
  if (flags.steps > 0) plan.training.steps = flags.steps;
  if (flags.threads_per_rank > 0) plan.threads_per_rank = flags.threads_per_rank;
  return plan;
}

void Prepare(TrainFlags& flags) {
  ParseInit(flags.init, flags.options);
  ParseData(flags);
  flags.options.device = DeviceKindFromString(flags.device);
  flags.options.comm = ChooseComm(flags, FindProcessRank(ReadEnvironment));
  flags.options.host_link = HostLinkFromString(flags.host_link);
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

}  // namespace tessera::engine
