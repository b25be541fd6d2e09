// A whole training run: ranks, data, checkpoints, metrics.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/spec/plan.h"
#include "cost_model/spec/step_warnings.h"
#include "engine/checkpoint/checkpoint_saver.h"
#include "engine/data/sample_source.h"
#include "engine/train/op_profile.h"
#include "engine/train/rank_trainer.h"
#include "engine/train/step_guard.h"

namespace tessera::engine {

// Loss over the first samples of other data, in their order, by forward passes alone.
struct ValidationOptions {
  // In the training data's format; "": the validation part of the training data's split, if there
  // is an interval or a number of samples.
  std::string data_path;
  int64_t interval = 0;     // every so many steps; at the end in any case
  int64_t num_samples = 0;  // 0: a global batch
};

struct TrainOptions {
  spec::Plan plan;  // hyper-parameters already applied
  std::string data_path;
  std::vector<BlendPart> data_blend;  // several data sets instead of data_path
  DataSplit data_split;               // of whose parts the first is trained on
  DataFormat data_format = DataFormat::kAuto;
  DataOrder data_order = DataOrder::kShuffled;
  std::string init_hf_dir;          // weights in Hugging Face form; "" for random
  std::string init_checkpoint_dir;  // weights alone, found as resume_dir; step counted from 0
  std::string resume_dir;           // a checkpoint, or a folder of them: the newest whole one
  std::string save_dir;
  int64_t save_interval = 0;  // 0: at the end only
  bool async_save = false;    // written behind the training
  int64_t keep_last = 0;      // checkpoints; 0: all
  OnSaveError on_save_error = OnSaveError::kStop;
  std::string export_hf_dir;
  std::string trace_path;
  DeviceKind device = DeviceKind::kCpu;
  CommKind comm = CommKind::kThread;
  int64_t check_replicas_interval = 0;  // 0: at the start alone
  std::string profile_path;             // times of one rank's operations; "" for none
  int profile_rank = 0;
  bool cuda_graph = false;     // the passes of a step as a graph of the GPU
  double timeout_s = 600;      // of a wait for other ranks
  double init_timeout_s = 60;  // until ranks that are processes have met
  bool checks_calls = false;   // of these: compare what they call before each operation
  std::string record_folder;   // where they write their last operations when the run fails
  std::string interface;       // of the network that they talk through; "" for any
  HostLink host_link = HostLink::kShared;
  bool deterministic = false;  // the same bits in every run, also of libraries on the GPU
  ValidationOptions validation;
  GuardOptions guard;
};

// What is printed and logged of a step.
struct StepRow {
  StepResult result;
  int64_t total_steps = 0;
  int64_t consumed_tokens = 0;
  double tokens_per_s = 0;
  double model_tflops_per_device = 0;
  double mfu = 0;
  bool has_experts = false;               // whose routers have losses of their own
  std::optional<double> validation_loss;  // after this step, where it was asked for
  double validation_time_s = 0;
};

// One rank over the whole run.
struct RankReport {
  spec::RankCoord coord;
  spec::TimeBreakdown time;  // mean over the measured steps
  spec::StageMemory memory;
  int64_t beyond_arena_bytes = 0;  // taken from the device on top of the arena
};

struct TrainReport {
  int64_t first_step = 0;  // steps done before this run
  int64_t last_step = 0;
  bool interrupted = false;
  double first_loss = 0;
  double last_loss = 0;
  std::optional<double> last_validation_loss;
  int64_t num_skipped_steps = 0;
  int64_t num_measured_steps = 0;  // the first is warm-up where there are more
  spec::StepReport measured;       // median step time, terms of the slowest rank
  std::vector<RankReport> ranks;
  std::optional<Straggler> straggler;       // by the ranks' means
  std::vector<spec::StepWarning> warnings;  // of what was measured
  std::optional<OpProfile> profile;
  std::string saved_checkpoint;  // the last one written, "" if none
};

struct TrainCallbacks {
  // Called on one rank, from its thread, for each step and for each event worth a line.
  std::function<void(const StepRow&)> on_step;
  std::function<void(const std::string&)> on_message;
  std::function<void(const std::string&)> on_warning;
  // Called on every rank, from its own thread, after each step; may communicate.
  std::function<void(RankTrainer&, RankDevice&, int rank, const StepResult&)> on_rank_step =
      nullptr;
};

// Runs until plan.training.steps, or until `stop` is set: the step is finished and saved first.
// Throws InfeasibleError for a plan that cannot be executed, ConfigError for data or weights that
// do not fit it, DivergedError when the loss is no number any more, SystemError for the disk
// (unless it is that of a checkpoint on the way and on_save_error says to go on). What a callback
// throws ends the run and comes out here. Checkpoints saved until then stay. A process that a
// launcher has started as one rank of several (see FindProcessRank) is that rank; else all ranks
// are threads of this process. Rank 0 alone calls back and has a report.
TrainReport RunTraining(const TrainOptions& wanted, const TrainCallbacks& callbacks,
                        const std::atomic<bool>& stop);

// The run of one rank whose peers are other processes. Throws base::ConfigError where they are not
// as many as the plan's devices.
TrainReport RunTrainingRank(const TrainOptions& wanted, const TrainCallbacks& callbacks,
                            const std::atomic<bool>& stop, const ProcessRank& process,
                            const MeetingPlace& place);

}  // namespace tessera::engine
