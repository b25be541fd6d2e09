// Forward passes of a rank beside its steps: a loss without gradients, the search for a fault.
#include <algorithm>

#include "cost_model/base/check.h"
#include "engine/train/fault_finder.h"
#include "engine/train/rank_trainer.h"

namespace tessera::engine {

void RankTrainer::RunForward(int num_microbatches, const std::function<Microbatch(int)>& data,
                             const ForwardOnlyRunner::Observer& observer) {
  const spec::PipelineSchedule schedule = spec::MakeForwardOnly(plan_.parallel, num_microbatches);
  ForwardOnlyRunner runner(context_, chunks_, data, observer);
  ExecuteSchedule(schedule.actions_by_stage.at(static_cast<size_t>(groups_.coord.pipeline)),
                  runner);
  for (SpanLog* const log : {&tensor_comm_, &shard_comm_, &expert_comm_, &context_comm_}) {
    log->Take();
  }
}

double RankTrainer::EvaluateLoss(const SampleSource& source, int64_t num_samples) {
  const int64_t per_round = spec::SamplesPerRound(plan_.parallel);
  TESSERA_CHECK(num_samples > 0 && num_samples % per_round == 0, num_samples,
                " samples in rounds of ", per_round);
  const auto most_at_once = static_cast<int>(spec::NumMicrobatches(plan_.training, plan_.parallel));
  if (!evaluation_inputs_) {
    evaluation_inputs_.emplace(backend_, SizesOfInputs(most_at_once));
  }
  BatchLoader loader(source, plan_.training, plan_.parallel, groups_.coord);
  StepSums mine;
  dropout_.is_on = false;
  BeginSums();
  for (int64_t first = 0; first < num_samples;) {
    const int64_t rounds_left = (num_samples - first) / per_round;
    const auto num_microbatches = static_cast<int>(std::min<int64_t>(most_at_once, rounds_left));
    const auto load = [&](int microbatch) {
      if (!NeedsInputs()) return Microbatch{};
      return evaluation_inputs_->Get(num_evaluation_rounds_, microbatch, [&] {
        const Microbatch loaded = loader.Load(first, microbatch);
        if (TellsLoss()) mine.num_targets += CountTargetsIn(loaded, context_.shape.tokens);
        return loaded;
      });
    };
    RunForward(num_microbatches, load, {});
    first += num_microbatches * per_round;
    ++num_evaluation_rounds_;
    backend_.TakeMarks();  // waits for the device, which has read the inputs then
  }
  dropout_.is_on = true;
  mine.loss = TellsLoss() ? ReadDeviceSums().loss : 0;
  const StepSums sums = MeetAtStepEnd(host_world_, mine).sums;
  return sums.loss / static_cast<double>(std::max<int64_t>(1, sums.num_targets));
}

std::string RankTrainer::FindFault(const StepMeeting& meeting) {
  FaultFinder finder(context_, store_, host_world_, &device_sums()->squared_norm);
  const std::string found = finder.Find([&](const ForwardOnlyRunner::Observer& observer) {
    RunForward(
        num_microbatches_, [this](int microbatch) { return LoadMicrobatch(microbatch); }, observer);
  });
  if (!found.empty()) return found;
  const std::string rank =
      meeting.first_bad_loss_rank < 0
          ? ""
          : base::Concat(", the loss of rank ", meeting.first_bad_loss_rank, " was none");
  return "parameters, outputs and gradients are finite when the forward passes are run again" +
         rank + ": the machine may have erred";
}

}  // namespace tessera::engine
