#include "engine/train/step_clock.h"

namespace tessera::engine {

spec::RankTimeline TimelineOf(const StepMarks& marks, const std::vector<double>& times_s) {
  spec::RankTimeline timeline;
  for (const auto& [action, begin, end] : marks.pipeline.actions) {
    timeline.actions.push_back({action, times_s.at(begin), times_s.at(end)});
  }
  for (const auto& [mark, num_bytes] : marks.pipeline.memory) {
    timeline.memory.push_back({times_s.at(mark), num_bytes});
  }
  for (const auto& [kind, span] : marks.phases) {
    timeline.phases.push_back({kind, times_s.at(span.begin), times_s.at(span.end)});
  }
  return timeline;
}

spec::TimeBreakdown BreakdownOf(const StepMarks& marks, const std::vector<double>& times_s,
                                double blocked_s) {
  spec::TimeBreakdown time;
  time.bubble_s = blocked_s;
  auto tensor_comm = marks.tensor_comm.begin();
  auto shard_comm = marks.shard_comm.begin();
  auto expert_comm = marks.expert_comm.begin();
  // Moves what lies before mark `end` of some communication out of a pass.
  const auto take = [&](auto& comm, const std::vector<MarkedSpan>& all, size_t end, double& pass_s,
                        double& comm_s) {
    for (; comm != all.end() && comm->end < end; ++comm) {
      const double seconds = times_s.at(comm->end) - times_s.at(comm->begin);
      pass_s -= seconds;
      comm_s += seconds;
    }
  };
  size_t last_end = 0;
  for (const auto& [action, begin, end] : marks.pipeline.actions) {
    double seconds = times_s.at(end) - times_s.at(begin);
    if (spec::IsTransfer(action.kind)) {
      if (end != last_end) time.bubble_s += seconds;  // once for all transfers of an exchange
      last_end = end;
      continue;
    }
    take(tensor_comm, marks.tensor_comm, end, seconds, time.tp_comm_s);
    take(shard_comm, marks.shard_comm, end, seconds, time.dp_comm_s);
    take(expert_comm, marks.expert_comm, end, seconds, time.ep_comm_s);
    (action.kind == spec::ActionKind::kForward ? time.forward_s : time.backward_s) += seconds;
  }
  for (const MarkedSpan& wait : marks.pipeline.waits) {
    time.bubble_s += times_s.at(wait.end) - times_s.at(wait.begin);
  }
  for (const auto& [kind, span] : marks.phases) {
    const double seconds = times_s.at(span.end) - times_s.at(span.begin);
    const bool is_data_comm =
        kind == spec::PhaseKind::kReduceGradients || kind == spec::PhaseKind::kGatherParameters;
    if (is_data_comm) time.dp_comm_s += seconds;
    if (kind == spec::PhaseKind::kOptimizer) time.optimizer_s += seconds;
  }
  time.other_s = times_s.back() - time.Total();
  return time;
}

}  // namespace tessera::engine
