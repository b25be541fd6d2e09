#include "engine/train/doctor.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "cost_model/base/error.h"
#include "cost_model/spec/file_write.h"
#include "engine/comm/gather.h"
#include "engine/pipeline/stopwatch.h"
#include "engine/train/op_profile_json.h"
#include "engine/train/straggler.h"

namespace tessera::engine {

void CheckDoctorOptions(const TrainOptions& options) {
  if (options.profile_path.empty()) return;
  if (options.profile_rank >= options.plan.num_devices) {
    throw base::ConfigError("--profile-rank", "", std::to_string(options.profile_rank),
                            base::Concat("a rank below ", options.plan.num_devices));
  }
  if (options.cuda_graph) {
    throw base::ConfigError("--profile", "", "--cuda-graph as well",
                            "one of the two: operations within a graph have no times of their own");
  }
}

Doctor::Doctor(const TrainOptions& options, RankTrainer& trainer, RankDevice& device,
               Communicator& host_world, Tell tell)
    : options_(options), trainer_(trainer), host_world_(host_world), tell_(std::move(tell)) {
  const bool is_profiled =
      !options.profile_path.empty() && host_world.rank() == options.profile_rank;
  observer_ = device.op_ranges();
  if (!is_profiled) return;
  profiler_.emplace(device.backend());
  if (observer_ != nullptr) {
    both_.emplace(*observer_, *profiler_);
    observer_ = &*both_;
  } else {
    observer_ = &*profiler_;
  }
}

void Doctor::AtStart() {
  first_step_ = trainer_.step();
  const spec::Plan& plan = options_.plan;
  if (plan.prediction && plan.prediction->step_time_s > 0) {
    for (const spec::StepWarning& warning : spec::FindStepWarnings(
             plan.model, plan.cluster, plan.training, plan.parallel, *plan.prediction)) {
      tell_("warning: predicted: " + spec::ToString(warning));
    }
  }
  CheckReplicas(/*with_gradients=*/false);
}

void Doctor::CheckReplicas(bool with_gradients) {
  const Stopwatch watch;
  // First what comes first: a weight is wrong because its gradient was.
  const int64_t num_reduced = trainer_.CheckReduction();
  const ReplicaCheck weights = trainer_.CheckReplicas(ReplicaKind::kWeights);
  ReplicaCheck gradients;
  if (with_gradients) gradients = trainer_.CheckReplicas(ReplicaKind::kGradients);
  if (options_.check_replicas_interval == 0) return;
  char text[200];
  std::snprintf(text, sizeof(text),
                "step %ld: %ld replicated parts of weights and %ld of gradients are the same on "
                "all ranks, %ld parts of sharded gradients the sums of theirs (%.2f s)",
                trainer_.step(), weights.num_replicated, gradients.num_replicated, num_reduced,
                watch.seconds());
  tell_(text);
}

void Doctor::BeforeStep() {
  trainer_.set_observer(observer_);
  if (profiler_) profiler_->BeginStep();
  if (ChecksStep(trainer_.step() + 1) && !options_.cuda_graph) trainer_.WatchReduction();
}

void Doctor::AfterStep(const StepResult& result) {
  trainer_.set_observer(nullptr);
  if (profiler_) {
    // The first step is warm-up, where there are more.
    const bool counts =
        result.step > first_step_ + 1 || result.step == options_.plan.training.steps || result.stop;
    profiler_->EndStep(trainer_.last_mark_times_s(), result.step_time_s, counts);
  }
  if (ChecksStep(result.step)) CheckReplicas(/*with_gradients=*/true);
}

bool Doctor::ChecksStep(int64_t step) const {
  const int64_t interval = options_.check_replicas_interval;
  return interval > 0 && step % interval == 0;
}

// Every rank learns what the profiled one has seen.
OpProfile Doctor::CollectProfile() {
  OpProfile profile;
  if (profiler_) profile = profiler_->Take();
  const auto from = static_cast<size_t>(options_.profile_rank);
  profile.ops = GatherLists(profile.ops, host_world_).at(from);
  host_world_.Broadcast(&profile.num_steps, 1, base::DType::kInt64, options_.profile_rank);
  host_world_.Broadcast(&profile.steps_s, sizeof(double), base::DType::kUInt8,
                        options_.profile_rank);
  profile.rank = options_.profile_rank;
  profile.coord = spec::RankLayout(options_.plan.parallel).CoordOf(profile.rank);
  return profile;
}

void Doctor::Finish(TrainReport& report) {
  if (report.ranks.empty()) return;  // no step was to be done
  const spec::Plan& plan = options_.plan;
  report.warnings = spec::FindStepWarnings(plan.model, plan.cluster, plan.training, plan.parallel,
                                           report.measured);
  if (report.straggler) {
    const spec::RankCoord& coord = report.ranks[static_cast<size_t>(report.straggler->rank)].coord;
    const auto warning = StragglerWarning(*report.straggler, coord, report.measured.step_time_s);
    if (warning) report.warnings.push_back(*warning);
  }
  if (options_.profile_path.empty()) return;
  report.profile = CollectProfile();
  if (host_world_.rank() == 0) {
    spec::WriteFileAtomically(options_.profile_path, WriteOpProfile(*report.profile, plan) + "\n");
  }
}

}  // namespace tessera::engine
