#include "tests/faults/fault_training.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/train/train_job.h"
#include "tests/engine/small_training.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kNumSteps = 6;

engine::TrainOptions OptionsOf(const FaultRun& run) {
  spec::Plan plan = engine::test::SmallPlan(
      {.tensor_parallel_size = 2, .data_parallel_size = 2, .micro_batch_size = 1});
  plan.training.steps = kNumSteps;
  const std::string save = run.folder + "/save";
  return {.plan = plan,
          .data_path = run.folder + "/tokens.u8",
          .data_format = engine::DataFormat::kRawU8,
          .data_order = engine::DataOrder::kSequential,
          .resume_dir = engine::NewestCheckpoint(save).empty() ? "" : save,
          .save_dir = save,
          .save_interval = 1,
          .comm = engine::CommKind::kGloo,
          .timeout_s = run.timeout_s,
          .init_timeout_s = run.init_timeout_s,
          .record_folder = run.folder};
}

// Whether a checkpoint is being written.
bool IsSaving(const std::string& save_folder) {
  std::error_code ignored;
  for (fs::directory_iterator entry(save_folder, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (entry->path().filename().string().find(".tmp-") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

FaultPlace PlaceOf(const FaultRun& run, std::vector<int> spared) {
  return {.time_file = run.folder + "/fault_time",
          .spared = std::move(spared),
          .timeout_s = run.timeout_s,
          .rank = run.process.rank};
}

void RunTrainingWithFault(const FaultRun& run) {
  const engine::TrainOptions options = OptionsOf(run);
  const FaultPlace place = PlaceOf(run, {});
  std::ofstream losses;
  if (run.process.rank == 0) {
    losses.open(run.folder + "/losses.txt", std::ios::app);
    losses.precision(17);
  }
  std::jthread striker;
  const engine::TrainCallbacks callbacks = {
      .on_step =
          [&](const engine::StepRow& row) {
            losses << row.result.step << ' ' << row.result.loss << std::endl;
          },
      .on_rank_step =
          [&](engine::RankTrainer& trainer, engine::RankDevice& device, int /*rank*/,
              const engine::StepResult& result) {
            if (!run.is_victim || result.step != kFaultStep || run.fault == Fault::kNone) return;
            if (run.strikes_within) {
              striker = std::jthread([&] {
                while (!IsSaving(options.save_dir)) std::this_thread::yield();
                Strike(run.fault, place);
              });
              return;
            }
            Strike(run.fault, place);
            if (run.fault == Fault::kSkips) trainer.Step(/*stop=*/false);
            if (run.fault == Fault::kOtherCall) device.world().Barrier();
          }};
  const std::atomic<bool> stop = false;
  engine::RunTrainingRank(options, callbacks, stop, run.process, run.place);
}

}  // namespace tessera::testing
