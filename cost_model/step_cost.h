// The price of one training step: in full, or just enough of it for a search over many layouts.
#pragma once

#include <vector>

#include "cost_model/spec/step_report.h"
#include "cost_model/step_parts.h"

namespace tessera::cost_model {

struct StepPrice {
  spec::StepReport report;
  // Empty when the layout fits; the report is filled either way.
  std::vector<spec::Violation> violations;
};

// Prices a layout: the pipeline as the simulator has it, state and activations to the byte.
// Time terms are the account of the stage with the most work: its busy seconds over all
// micro-batches; pp_comm_s is what the step takes longer than with transfers of no time; bubble_s
// is the rest of the pipeline's time; dp_comm_s is the reduction of gradients that outlasts the
// pipeline, and the gathering of parameters; straggler_s what all wait for the slowest device. They
// sum to step_time_s.
// Where more ranks share a pool of cores than there are cores, time stretches wherever more ranks
// are at work than there are cores, and the busy terms with it.
// REQUIRES: FindViolations and FindUnpriced are empty.
StepPrice PriceStep(JobCosts& costs, const spec::ParallelSpec& parallel);

// The step time of PriceStep alone.
double StepSeconds(JobCosts& costs, const spec::ParallelSpec& parallel);

// Step time with the pipeline in closed form, and the memory of PriceStep.
struct FastPrice {
  double step_time_s = 0;
  double peak_bytes = 0;    // of the fullest stage
  double needed_bytes = 0;  // what the memory limit holds against available_bytes
  double available_bytes = 0;
  bool fits() const { return needed_bytes <= available_bytes; }
};
FastPrice PriceStepFast(JobCosts& costs, const spec::ParallelSpec& parallel);

}  // namespace tessera::cost_model
