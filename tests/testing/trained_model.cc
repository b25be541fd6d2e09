#include "tests/testing/trained_model.h"

#include "engine/train/rank_trainer.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/run_ranks.h"

namespace tessera::testing {

namespace {

class Training {
 public:
  explicit Training(const spec::Plan& plan)
      : plan_(plan), source_(plan.training.sequence_length, plan.model.vocab_size) {}

  // One rank's part.
  void Run(engine::Communicator& world, engine::RankDevice& device) {
    engine::RankTrainer trainer(plan_, device, world, source_);
    for (int64_t step = 1; step <= plan_.training.steps; ++step) {
      const engine::StepResult result = trainer.Step(false);
      recorder_.Record(trainer, device.backend(), world.rank(), result,
                       step == plan_.training.steps);
    }
  }
  const TrainedModel& trained() const { return recorder_.trained(); }

 private:
  const spec::Plan& plan_;
  const CountingSource source_;
  engine::ModelRecorder recorder_;
};

}  // namespace

TrainedModel TrainOver(CommBackend backend, const spec::Plan& plan) {
  Training training(plan);
  RunRanks(backend, plan.num_devices, {}, [&](engine::Communicator& world) {
    training.Run(world, *engine::MakeRankDevice({}, world));
  });
  return training.trained();
}

TrainedModel TrainOnThreads(const spec::Plan& plan, const MakeDevice& make_device) {
  Training training(plan);
  RunRanks(plan.num_devices,
           [&](engine::Communicator& world) { training.Run(world, *make_device(world)); });
  return training.trained();
}

}  // namespace tessera::testing
