// What watches a run for its user: replicas that differ, time by operation, ranks that are slow,
// and what of a step could be better.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/train/op_profile.h"
#include "engine/train/train_job.h"

namespace tessera::engine {

// Throws base::ConfigError for options that the plan or the run cannot have.
void CheckDoctorOptions(const TrainOptions& options);

// One rank's part. Its calls are collective.
class Doctor {
 public:
  using Tell = std::function<void(const std::string&)>;

  // All must outlive it. `tell` takes lines for people.
  Doctor(const TrainOptions& options, RankTrainer& trainer, RankDevice& device,
         Communicator& host_world, Tell tell);

  // Once the state is loaded. Throws ReplicaError where ranks start from different weights.
  void AtStart();
  // Around each step. Throws ReplicaError where one was to be checked and replicas differ.
  void BeforeStep();
  void AfterStep(const StepResult& result);
  // Adds warnings and the profile to the run's report, which is complete on every rank, and writes
  // the profile's file on the first.
  void Finish(TrainReport& report);

 private:
  bool ChecksStep(int64_t step) const;
  void CheckReplicas(bool with_gradients);
  OpProfile CollectProfile();

  const TrainOptions& options_;
  RankTrainer& trainer_;
  Communicator& host_world_;
  Tell tell_;
  base::OpObserver* observer_ = nullptr;  // of steps; null: none
  std::optional<OpProfiler> profiler_;
  std::optional<ObserverPair> both_;
  int64_t first_step_ = 0;  // of the run
};

}  // namespace tessera::engine
