// How long the pipeline of one step runs.
#pragma once

#include <vector>

#include "cost_model/spec/timeline.h"
#include "cost_model/step_parts.h"

namespace tessera::cost_model {

// From the first action to the last backward pass.
struct PipelineRun {
  double makespan_s = 0;
  double makespan_without_transfers_s = 0;
  std::vector<double> finish_s;  // by pipeline stage
  // How many times longer a stage's work takes because ranks wait for cores, by pipeline stage;
  // empty where none does.
  std::vector<double> stretch;
};

// Ranks that share a pool of cores, more of them than cores: how many times longer work takes while
// all ranks are at it. 1 elsewhere.
double Oversubscription(const JobCosts& costs);

// As the simulator has it. Where ranks share too few cores, time stretches by the number of ranks
// at work over the number of cores.
PipelineRun RunPipeline(const JobCosts& costs, const spec::ParallelSpec& parallel,
                        const StepParts& parts);

// For a search: transfers are not told apart from the rest, and where ranks share too few cores the
// makespan is the larger of the critical path and all ranks' work over the cores.
PipelineRun RunPipelineFast(const JobCosts& costs, const spec::ParallelSpec& parallel,
                            const StepParts& parts);

// When each action of the pipeline runs. A send lasts until its message arrives. Stages end as in
// RunPipeline.
spec::PipelineTimeline PlayPipeline(const JobCosts& costs, const spec::ParallelSpec& parallel,
                                    const StepParts& parts);

}  // namespace tessera::cost_model
