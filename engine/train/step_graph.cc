#include "engine/train/step_graph.h"

namespace tessera::engine {

void StepGraph::Run(const Passes& passes, StepMarks& marks) {
  if (!has_run_) {
    passes.call(marks);
    has_run_ = true;
    return;
  }
  const bool is_same =
      grad_scale_ == passes.grad_scale && num_microbatches_ == passes.num_microbatches;
  if (graph_ == nullptr || !is_same) Capture(passes, marks);
  passes.fill_inputs();
  backend_.Launch(*graph_);
  marks = marks_;
}

void StepGraph::Capture(const Passes& passes, const StepMarks& marks) {
  graph_.reset();
  marks_ = marks;
  graph_ = backend_.Capture([&] { passes.call(marks_); });
  grad_scale_ = passes.grad_scale;
  num_microbatches_ = passes.num_microbatches;
  // A graph is made by calls that may wait for its device: not while a rank that was faster lets
  // that device wait for a collective of its own graph.
  host_world_.Barrier();
}

}  // namespace tessera::engine
