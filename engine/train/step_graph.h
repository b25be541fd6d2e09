// The passes of a step as a graph of the device: captured once, launched at every step. A launch
// costs the host next to nothing, where calls of small operations would keep the device waiting.
#pragma once

#include <functional>
#include <memory>

#include "engine/comm/communicator.h"
#include "engine/train/step_clock.h"
#include "kernels/backend.h"

namespace tessera::engine {

class StepGraph {
 public:
  struct Passes {
    // Calls the operations; fills the marks.
    std::function<void(StepMarks& marks)> call;
    // Brings what they read of the host's memory up to date; `call` does so by itself.
    std::function<void()> fill_inputs;
    // What their operations have in them beside addresses, and how many there are: another value
    // needs another graph.
    float grad_scale = 0;
    int num_microbatches = 0;
  };

  // Both outlive the graph. REQUIRES: backend.has_graphs().
  StepGraph(kernels::Backend& backend, Communicator& host_world)
      : backend_(backend), host_world_(host_world) {}

  // Runs the passes, `marks` holding what was marked before them. Collective. The first step is
  // called as it is: then libraries choose, connect and allocate.
  void Run(const Passes& passes, StepMarks& marks);

 private:
  void Capture(const Passes& passes, const StepMarks& marks);

  kernels::Backend& backend_;
  Communicator& host_world_;
  bool has_run_ = false;
  std::unique_ptr<kernels::OpGraph> graph_;
  float grad_scale_ = 0;  // of graph_
  int num_microbatches_ = 0;
  StepMarks marks_;  // behind graph_
};

}  // namespace tessera::engine
