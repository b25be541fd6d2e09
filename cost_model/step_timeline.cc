#include "cost_model/step_timeline.h"

#include <algorithm>
#include <utility>

#include "cost_model/memory.h"
#include "cost_model/spec/kept_tensors.h"
#include "cost_model/step_account.h"

namespace tessera::cost_model {
namespace {

using spec::PhaseKind;

// Adds phases to a rank's timeline one after the other; those that take no time are left out.
class PhaseWriter {
 public:
  PhaseWriter(std::vector<spec::TimedPhase>& phases, double start_s)
      : phases_(phases), now_s_(start_s) {}

  void Add(PhaseKind kind, double duration_s) {
    if (duration_s <= 0) return;
    phases_.push_back({kind, now_s_, now_s_ + duration_s});
    now_s_ += duration_s;
  }

 private:
  std::vector<spec::TimedPhase>& phases_;
  double now_s_;
};

// `meeting_s`: all ranks have reduced their gradients, those of the slowest device too.
void AddPhases(const JobCosts& costs, const spec::ParallelSpec& parallel, const StepParts& parts,
               int stage, double finish_s, double meeting_s, spec::RankTimeline& timeline) {
  const double slowdown = Oversubscription(costs);
  const UpdateCost& reduction = parts.updates[stage];
  const double exposed_s = ExposedReductionSeconds(costs, parallel, parts, stage);
  const double reduced_s = finish_s + exposed_s;
  const double all_s =
      std::max(exposed_s, slowdown * (reduction.gradient_comm_s + reduction.replica_comm_s +
                                      reduction.tied_comm_s + reduction.tensor_comm_s));
  if (all_s > 0) {
    timeline.phases.push_back(
        {PhaseKind::kReduceGradients, std::max(0.0, reduced_s - all_s), reduced_s});
  }
  const UpdateCost update = ExposedUpdate(costs, parallel, parts, stage);
  PhaseWriter writer(timeline.phases, reduced_s);
  writer.Add(PhaseKind::kWait, meeting_s - reduced_s);
  writer.Add(PhaseKind::kOther, slowdown * update.other_s);
  writer.Add(PhaseKind::kOptimizer, slowdown * update.optimizer_s);
  writer.Add(PhaseKind::kGatherParameters, slowdown * update.gather_comm_s);
}

// `stage_bytes` is all that the stage holds at most, activations included.
std::vector<spec::MemorySample> MemoryOver(const std::vector<spec::TimedAction>& actions,
                                           int num_stages,
                                           const std::vector<spec::StageActivationBytes>& by_chunk,
                                           int64_t stage_bytes) {
  std::vector<spec::Action> order;
  for (const spec::TimedAction& timed : actions) order.push_back(timed.action);
  const int64_t lasting_bytes =
      stage_bytes - spec::PeakActivationBytes(order, num_stages, by_chunk);
  spec::ActivationLedger ledger(num_stages, by_chunk);
  std::vector<spec::MemorySample> samples = {{0, lasting_bytes}};
  for (const spec::TimedAction& timed : actions) {
    if (spec::IsTransfer(timed.action.kind)) continue;
    samples.push_back({timed.start_s, lasting_bytes + ledger.Run(timed.action)});
    samples.push_back({timed.end_s, lasting_bytes + ledger.held_bytes()});
  }
  return samples;
}

}  // namespace

std::vector<spec::RankTimeline> PredictTimelines(JobCosts& costs,
                                                 const spec::ParallelSpec& parallel) {
  const Job& job = costs.job();
  const StepParts parts = MakeStepParts(costs, parallel);
  const PipelineRun run = RunPipeline(costs, parallel, parts);
  const double meeting_s =
      ReductionEnd(costs, parallel, parts, run) + costs.network().straggler_share * run.makespan_s;
  const std::vector<spec::StageMemory> memory =
      MemoryOf(job.model, job.cluster, job.training, parallel, parts.stages, job.runtime);
  spec::PipelineTimeline pipeline = PlayPipeline(costs, parallel, parts);
  std::vector<spec::RankTimeline> timelines(pipeline.by_stage.size());
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    spec::RankTimeline& timeline = timelines[stage];
    timeline.actions = std::move(pipeline.by_stage[stage]);
    AddPhases(costs, parallel, parts, stage, run.finish_s[stage], meeting_s, timeline);
    std::vector<spec::StageActivationBytes> by_chunk;
    for (const spec::VirtualStage& chunk : spec::StagesOf(parts.stages, stage)) {
      by_chunk.push_back(spec::KeptBytesOf(job.model, job.training, parallel, chunk, job.runtime));
    }
    timeline.memory = MemoryOver(timeline.actions, parallel.pipeline_parallel_size, by_chunk,
                                 memory[stage].Total());
  }
  return timelines;
}

}  // namespace tessera::cost_model
