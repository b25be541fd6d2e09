#include "engine/train/step_clock.h"

namespace tessera::engine {
namespace {

// Spans of communication, taken pass by pass.
class CommWithin {
 public:
  CommWithin(const std::vector<MarkedSpan>& spans, const std::vector<double>& times_s)
      : span_(spans.begin()), end_(spans.end()), times_s_(times_s) {}

  // Of those that no earlier call counted and that end before the mark.
  double SecondsBefore(size_t mark) {
    double seconds = 0;
    for (; span_ != end_ && span_->end < mark; ++span_) {
      seconds += times_s_.at(span_->end) - times_s_.at(span_->begin);
    }
    return seconds;
  }

 private:
  std::vector<MarkedSpan>::const_iterator span_, end_;
  const std::vector<double>& times_s_;
};

}  // namespace

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
  CommWithin tensor_comm(marks.tensor_comm, times_s);
  CommWithin context_comm(marks.context_comm, times_s);
  CommWithin shard_comm(marks.shard_comm, times_s);
  CommWithin expert_comm(marks.expert_comm, times_s);
  size_t last_end = 0;
  for (const auto& [action, begin, end] : marks.pipeline.actions) {
    double seconds = times_s.at(end) - times_s.at(begin);
    if (spec::IsTransfer(action.kind)) {
      if (end != last_end) time.bubble_s += seconds;  // once for all transfers of an exchange
      last_end = end;
      continue;
    }
    const auto take_out = [&](CommWithin& comm, double& comm_s) {
      const double within_s = comm.SecondsBefore(end);
      comm_s += within_s;
      seconds -= within_s;
    };
    take_out(tensor_comm, time.tp_comm_s);
    take_out(context_comm, time.cp_comm_s);
    take_out(shard_comm, time.dp_comm_s);
    take_out(expert_comm, time.ep_comm_s);
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
