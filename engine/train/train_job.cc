#include "engine/train/train_job.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "cost_model/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_choice.h"
#include "engine/checkpoint/collective_work.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/hugging_face.h"
#include "engine/comm/thread_world.h"
#include "engine/pipeline/stopwatch.h"
#include "engine/train/core_binding.h"
#include "engine/train/doctor.h"
#include "engine/train/engine_limits.h"
#include "engine/train/graph_limits.h"
#include "engine/train/machine_profile.h"
#include "engine/train/run_data.h"
#include "engine/train/run_report.h"
#include "engine/train/trace.h"

namespace tessera::engine {
namespace {

int ThreadsPerRank(const spec::Plan& plan, int num_local_ranks) {
  if (plan.threads_per_rank > 0) return plan.threads_per_rank;
  return std::max(1, ReadHostInfo().num_cores / num_local_ranks);
}

DeviceOptions DeviceOptionsOf(const TrainOptions& options, int num_threads) {
  return {.device = options.device,
          .comm = options.comm,
          .threads_per_rank = num_threads,
          .timeout_s = options.timeout_s,
          .init_timeout_s = options.init_timeout_s,
          .checks_calls = options.checks_calls,
          .interface = options.interface,
          .host_link = options.host_link,
          .record_folder = options.record_folder,
          .deterministic = options.deterministic};
}

void CheckRunnable(const TrainOptions& options) {
  CheckExecutable(options.plan);
  CheckDoctorOptions(options);
  if (options.cuda_graph) CheckGraphs(options.plan, options.device, options.comm);
}

// The run's data in words.
std::string DataName(const TrainOptions& options) {
  return options.data_blend.empty() ? options.data_path : ToString(options.data_blend);
}

// What would fail at the end of hours of training fails before its start.
void PrepareOutputs(const TrainOptions& options) {
  if (!options.save_dir.empty()) MakeFolders(options.save_dir);
  if (!options.export_hf_dir.empty()) {
    HuggingFaceTensors(options.plan.model);  // throws for a model of no such family
    MakeFolders(options.export_hf_dir);
  }
  for (const auto& [what, path] :
       {std::pair("trace", options.trace_path), std::pair("profile", options.profile_path)}) {
    if (!path.empty() && !std::ofstream(path, std::ios::app)) {
      throw base::SystemError(
          base::Concat("cannot write the ", what, " to ", path, ": ", std::strerror(errno)));
    }
  }
}

// What a run starts from.
struct RunStart {
  TrainOptions options;  // naming checkpoints where a save folder was named
  std::vector<PassedOver> passed_over;
};

// Collective. Every rank has the same answer, even where another run is saving.
RunStart ChooseCheckpoints(const TrainOptions& wanted, Communicator& world) {
  RunStart start = {.options = wanted, .passed_over = {}};
  for (std::string* const folder :
       {&start.options.resume_dir, &start.options.init_checkpoint_dir}) {
    if (folder->empty()) continue;
    CheckpointChoice choice = ChooseCheckpoint(*folder, world);
    *folder = std::move(choice.folder);
    for (PassedOver& each : choice.passed_over) start.passed_over.push_back(std::move(each));
  }
  return start;
}

// The same where the ranks are threads that have not started yet.
RunStart ChooseCheckpoints(const TrainOptions& wanted) {
  RunStart start = {.options = wanted, .passed_over = {}};
  if (wanted.resume_dir.empty() && wanted.init_checkpoint_dir.empty()) return start;
  RunThreadRanks(wanted.plan.num_devices, {.timeout_s = wanted.timeout_s},
                 [&](Communicator& world) {
                   RunStart mine = ChooseCheckpoints(wanted, world);
                   if (world.rank() == 0) start = std::move(mine);
                 });
  return start;
}

// One rank's run. Rank 0 tells the outside.
class RankRun {
 public:
  RankRun(const RunStart& start, const TrainCallbacks& callbacks, const std::atomic<bool>& stop,
          const RunData& data, RankDevice& device, Communicator& world)
      : options_(start.options),
        passed_over_(start.passed_over),
        callbacks_(callbacks),
        stop_(stop),
        validation_data_(data.validation.get()),
        device_(device),
        world_(world),
        trainer_(options_.plan, device, world, *data.training),
        doctor_(options_, trainer_, device, world,
                [this](const std::string& line) { Tell(line); }) {
    if (options_.cuda_graph) trainer_.UseGraphs();
    trainer_.SetGuard(options_.guard);
    if (!options_.save_dir.empty()) MakeSaver();
  }

  void Run(TrainReport& report) {
    LoadState();
    doctor_.AtStart();
    const int64_t first_step = trainer_.step();
    RunRecorder recorder(options_.plan, first_step);
    bool interrupted = false;
    while (recorder.last_step() < options_.plan.training.steps && !interrupted) {
      const StepResult result = Step();
      if (callbacks_.on_rank_step) {
        callbacks_.on_rank_step(trainer_, device_, world_.rank(), result);
      }
      StepRow row = recorder.Add(result);
      if (IsEvaluatedAfter(result)) {
        Evaluate(row);
        recorder.set_validation_loss(*row.validation_loss);
      }
      if (is_first() && callbacks_.on_step) callbacks_.on_step(row);
      interrupted = result.stop && result.step < options_.plan.training.steps;
      const bool at_interval =
          options_.save_interval > 0 && result.step % options_.save_interval == 0;
      if (saver_) saver_->Poll();
      if (at_interval && saver_) saver_->Save(trainer_.State().state(), SaveInfo());
    }
    Finish();
    TrainReport collected = recorder.Collect(trainer_, world_);
    doctor_.Finish(collected);
    if (!options_.trace_path.empty()) {
      WriteTrace(trainer_.last_timeline(), trainer_.coord(), world_, options_.trace_path);
    }
    if (!is_first()) return;
    report = collected;
    report.interrupted = interrupted;
    report.saved_checkpoint = saved_;
  }

 private:
  bool is_first() const { return world_.rank() == 0; }

  void Tell(const std::string& message) const {
    if (is_first() && callbacks_.on_message) callbacks_.on_message(message);
  }

  void Warn(const std::string& message) const {
    if (is_first() && callbacks_.on_warning) callbacks_.on_warning(message);
  }

  void MakeSaver() {
    std::vector<std::string> damaged;
    for (const PassedOver& each : passed_over_) damaged.push_back(each.folder);
    const CheckpointSaver::Callbacks callbacks = {
        .on_saved =
            [this](const std::string& path) {
              saved_ = path;
              Tell("saved " + path);
            },
        .on_warning = [this](const std::string& message) { Warn(message); }};
    saver_.emplace(SaveOptions{.folder = options_.save_dir,
                               .is_asynchronous = options_.async_save,
                               .keep_last = options_.keep_last,
                               .on_error = options_.on_save_error,
                               .patience_s = options_.timeout_s},
                   std::move(damaged), world_, callbacks);
  }

  StepResult Step() {
    // Both are thrown on every rank.
    try {
      doctor_.BeforeStep();
      const StepResult result = trainer_.Step(stop_.load());
      doctor_.AfterStep(result);
      return result;
    } catch (const DivergedError&) {
      EndTogether();
      throw;
    } catch (const ReplicaError&) {
      EndTogether();
      throw;
    }
  }

  // Before an error that every rank throws.
  void EndTogether() {
    if (saver_) saver_->Wait();
    MeetBeforeFailing(world_);
  }

  bool IsEvaluatedAfter(const StepResult& result) const {
    if (validation_data_ == nullptr) return false;
    const int64_t interval = options_.validation.interval;
    return result.step == options_.plan.training.steps ||
           (interval > 0 && result.step % interval == 0);
  }

  void Evaluate(StepRow& row) {
    const Stopwatch watch;
    row.validation_loss = trainer_.EvaluateLoss(*validation_data_, NumValidationSamples(options_));
    row.validation_time_s = watch.seconds();
  }

  void LoadState() {
    for (const PassedOver& each : passed_over_) {
      Warn(base::Concat("passed over ", each.folder, ": ", each.problem));
    }
    if (!options_.resume_dir.empty()) {
      HostState host = trainer_.EmptyState(HostState::Parts::kAll);
      const CheckpointInfo info =
          LoadCheckpoint(options_.resume_dir, options_.plan.model, host.state());
      host.Upload();
      trainer_.SetProgress(info.progress);
      world_.Barrier();  // told when every rank has loaded its part
      Tell(base::Concat("resumed from ", options_.resume_dir, " at step ", info.progress.step));
      resumed_step_ = info.progress.step;
    } else if (!options_.init_checkpoint_dir.empty() || !options_.init_hf_dir.empty()) {
      HostState host = trainer_.EmptyState(HostState::Parts::kWeights);
      TrainState& state = host.state();
      if (!options_.init_hf_dir.empty()) {
        LoadHuggingFaceWeights(options_.init_hf_dir, options_.plan.model, state);
      } else {
        LoadCheckpoint(options_.init_checkpoint_dir, options_.plan.model, state);
      }
      host.Upload();
    }
  }

  CheckpointInfo SaveInfo() const {
    const spec::TrainingSpec& training = options_.plan.training;
    return {.model = options_.plan.model,
            .seed = training.seed,
            .training = base::Concat("global batch ", training.global_batch_size, ", sequence ",
                                     training.sequence_length, ", data ", DataName(options_)),
            .progress = {},
            .has_optimizer_state = false};
  }

  void Finish() {
    if (saver_) saver_->Wait();
    const int64_t step = trainer_.step();
    const bool saves = saver_ && step != resumed_step_ && step != saver_->last_saved_step();
    const bool exports = !options_.export_hf_dir.empty();
    if (!saves && !exports) return;
    const HostState host = trainer_.State();
    if (saves) saver_->SaveLast(host.state(), SaveInfo());
    if (!exports) return;
    ExportHuggingFaceModel(host.state(), options_.plan.model, world_, options_.export_hf_dir);
    Tell("exported " + options_.export_hf_dir);
  }

  const TrainOptions& options_;
  const std::vector<PassedOver>& passed_over_;
  const TrainCallbacks& callbacks_;
  const std::atomic<bool>& stop_;
  const SampleSource* validation_data_;  // null: none
  RankDevice& device_;
  Communicator& world_;
  RankTrainer trainer_;
  Doctor doctor_;
  int64_t resumed_step_ = -1;
  std::string saved_;  // rank 0's last checkpoint
  std::optional<CheckpointSaver> saver_;
};

// A process whose rank fails tells its peers why, so that they do not wait for it.
template <typename Run>
void RunForPeers(Communicator& world, const Run& run) {
  try {
    run();
  } catch (const base::CommError&) {
    throw;  // the peers know
  } catch (const std::exception& error) {
    world.Abort(base::Concat("rank ", world.rank(), " failed: ", error.what()));
    throw;
  }
}

}  // namespace

TrainReport RunTrainingRank(const TrainOptions& wanted, const TrainCallbacks& callbacks,
                            const std::atomic<bool>& stop, const ProcessRank& process,
                            const MeetingPlace& place) {
  CheckRunnable(wanted);
  if (process.num_ranks != wanted.plan.num_devices) {
    throw base::ConfigError(
        process.launcher, "", base::Concat(process.num_ranks, " processes"),
        base::Concat(wanted.plan.num_devices, ", one for each of the plan's devices"));
  }
  const int num_local_ranks = process.num_local_ranks.value_or(process.num_ranks);
  const int num_threads = ThreadsPerRank(wanted.plan, num_local_ranks);
  if (wanted.device == DeviceKind::kCpu) {
    BindToOwnCores(process.local_rank.value_or(process.rank), num_local_ranks, num_threads);
  }
  const ProcessDevice joined = JoinProcesses(DeviceOptionsOf(wanted, num_threads), process, place);
  TrainReport report;
  RunForPeers(*joined.host_world, [&] {
    const RunStart start = ChooseCheckpoints(wanted, *joined.host_world);
    RunData data;
    RunOnAllRanks(*joined.host_world, "opening data and outputs", [&] {
      data = OpenRunData(start.options);
      PrepareOutputs(start.options);
    });
    RankRun(start, callbacks, stop, data, *joined.device, *joined.host_world).Run(report);
  });
  return report;
}

TrainReport RunTraining(const TrainOptions& wanted, const TrainCallbacks& callbacks,
                        const std::atomic<bool>& stop) {
  if (const auto process = FindProcessRank(ReadEnvironment)) {
    CheckProcesses(DeviceOptionsOf(wanted, 1), *process);
    return RunTrainingRank(wanted, callbacks, stop, *process, FindMeetingPlace(ReadEnvironment));
  }
  CheckRunnable(wanted);
  const RunStart start = ChooseCheckpoints(wanted);
  const TrainOptions& options = start.options;
  const RunData data = OpenRunData(options);
  PrepareOutputs(options);
  // Asked for here, where no thread is bound yet.
  const int num_threads = ThreadsPerRank(options.plan, options.plan.num_devices);
  TrainReport report;
  RunThreadRanks(options.plan.num_devices,
                 {.timeout_s = options.timeout_s, .record_folder = options.record_folder},
                 [&](Communicator& world) {
                   BindToOwnCores(world.rank(), world.size(), num_threads);
                   const auto device = MakeRankDevice(DeviceOptionsOf(options, num_threads), world);
                   RankRun(start, callbacks, stop, data, *device, world).Run(report);
                 });
  return report;
}

}  // namespace tessera::engine
