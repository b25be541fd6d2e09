#include "engine/train/run_report.h"

#include <algorithm>
#include <utility>

#include "cost_model/spec/throughput.h"

namespace tessera::engine {
namespace {

void AddScaled(const spec::TimeBreakdown& time, double factor, spec::TimeBreakdown& sum) {
  sum.forward_s += factor * time.forward_s;
  sum.backward_s += factor * time.backward_s;
  sum.recompute_s += factor * time.recompute_s;
  sum.tp_comm_s += factor * time.tp_comm_s;
  sum.pp_comm_s += factor * time.pp_comm_s;
  sum.dp_comm_s += factor * time.dp_comm_s;
  sum.cp_comm_s += factor * time.cp_comm_s;
  sum.ep_comm_s += factor * time.ep_comm_s;
  sum.bubble_s += factor * time.bubble_s;
  sum.optimizer_s += factor * time.optimizer_s;
  sum.other_s += factor * time.other_s;
}

// The fullest rank of each pipeline stage.
std::vector<spec::StageMemory> MemoryByStage(const std::vector<RankReport>& ranks, int num_stages) {
  std::vector<spec::StageMemory> stages(static_cast<size_t>(num_stages));
  for (const RankReport& rank : ranks) {
    spec::StageMemory& stage = stages.at(static_cast<size_t>(rank.coord.pipeline));
    if (rank.memory.Total() > stage.Total()) stage = rank.memory;
  }
  return stages;
}

// The rank that computes longest: the others wait for it.
const RankReport& BusiestRank(const std::vector<RankReport>& ranks) {
  return *std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.time.Compute() < b.time.Compute();
  });
}

}  // namespace

size_t RunRecorder::FirstMeasured() const {
  size_t first = results_.size() - 1;
  while (first > 0 && results_[first - 1].batch_size == results_.back().batch_size) --first;
  return first == 0 && results_.size() > 1 ? 1 : first;
}

StepRow RunRecorder::Add(const StepResult& result) {
  results_.push_back(result);
  spec::TrainingSpec training = plan_.training;
  training.global_batch_size = result.batch_size;
  spec::StepReport rates;
  rates.step_time_s = result.step_time_s;
  FillThroughput(plan_.model, training, plan_.cluster, plan_.num_devices,
                 spec::FlopsConvention::kFull, rates);
  return {.result = result,
          .total_steps = training.steps,
          .consumed_tokens = result.consumed_samples * training.sequence_length,
          .tokens_per_s = rates.tokens_per_s,
          .model_tflops_per_device = rates.model_tflops_per_device,
          .mfu = rates.mfu,
          .has_experts = plan_.model.moe.has_value()};
}

spec::TimeBreakdown RunRecorder::MeanTime() const {
  spec::TimeBreakdown mean;
  const double weight = 1.0 / static_cast<double>(results_.size() - FirstMeasured());
  for (size_t i = FirstMeasured(); i < results_.size(); ++i) {
    AddScaled(results_[i].time, weight, mean);
  }
  return mean;
}

double RunRecorder::MedianStepTime() const {
  std::vector<double> times;
  for (size_t i = FirstMeasured(); i < results_.size(); ++i) {
    times.push_back(results_[i].step_time_s);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

TrainReport RunRecorder::Collect(const RankTrainer& trainer, Communicator& world) const {
  TrainReport report{.first_step = first_step_, .last_step = last_step()};
  if (results_.empty()) return report;
  const RankReport mine{.coord = trainer.coord(),
                        .time = MeanTime(),
                        .memory = trainer.MeasuredMemory(),
                        .beyond_arena_bytes = trainer.BeyondArenaBytes()};
  report.ranks.resize(static_cast<size_t>(world.size()));
  world.AllGather(&mine, report.ranks.data(), sizeof(RankReport), base::DType::kUInt8);

  std::vector<RankCompute> computes;
  for (const RankReport& rank : report.ranks) {
    computes.push_back({.pipeline = rank.coord.pipeline, .compute_s = rank.time.Compute()});
  }
  report.straggler = FindStraggler(computes);
  report.first_loss = results_.front().loss;
  report.last_loss = results_.back().loss;
  report.last_validation_loss = validation_loss_;
  report.num_skipped_steps = std::count_if(results_.begin(), results_.end(),
                                           [](const StepResult& step) { return step.skipped; });
  report.num_measured_steps = static_cast<int64_t>(results_.size() - FirstMeasured());
  spec::StepReport& measured = report.measured;
  measured.step_time_s = MedianStepTime();
  if (plan_.prediction) measured.hardware_flops = plan_.prediction->hardware_flops;
  spec::TrainingSpec training = plan_.training;
  training.global_batch_size = results_.back().batch_size;
  FillThroughput(plan_.model, training, plan_.cluster, plan_.num_devices,
                 spec::FlopsConvention::kFull, measured);
  // Terms are means; scaled so that they sum to the median step.
  const spec::TimeBreakdown& busiest = BusiestRank(report.ranks).time;
  AddScaled(busiest, measured.step_time_s / busiest.Total(), measured.time);
  measured.stages = MemoryByStage(report.ranks, plan_.parallel.pipeline_parallel_size);
  for (const spec::StageMemory& stage : measured.stages) {
    measured.peak_bytes = std::max(measured.peak_bytes, stage.Total());
  }
  return report;
}

}  // namespace tessera::engine
