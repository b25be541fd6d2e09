// One training step of a layout taken apart: what each virtual stage computes for a micro-batch,
// what moves between stages, what follows the pipeline.
#pragma once

#include <vector>

#include "cost_model/update_cost.h"

namespace tessera::cost_model {

struct StepParts {
  int64_t num_microbatches = 1;
  std::vector<spec::VirtualStage> stages;
  std::vector<spec::PerForm<int>> forms;  // by virtual stage: layers of each form
  // Where only some layers are recomputed, by virtual stage: how many of each form; else empty.
  std::vector<spec::PerForm<int>> recomputed;
  std::vector<BlockCost> costs;     // by virtual stage, one micro-batch
  std::vector<double> transfer_s;   // from virtual stage i to i + 1 (and back: the same bytes)
  std::vector<UpdateCost> updates;  // by pipeline stage
  LayoutGroups groups;
};

// REQUIRES: FindViolations and FindUnpriced are empty.
StepParts MakeStepParts(JobCosts& costs, const spec::ParallelSpec& parallel);

// What the memory of a step depends on alone: micro-batches, stages, and the forms of their layers.
StepParts MakeStepLayers(const Job& job, const spec::ParallelSpec& parallel);

// Prices the updates of the parts anew, for a layout of the same stages and passes.
void SetUpdates(JobCosts& costs, const spec::ParallelSpec& parallel, StepParts& parts);

// Work of pipeline stage `stage` for one micro-batch, all its chunks together.
BlockCost PipelineStageCost(const StepParts& parts, const spec::ParallelSpec& parallel, int stage);

// Layers of each form on pipeline stage `stage`, all its chunks together.
spec::PerForm<int> PipelineStageForms(const StepParts& parts, const spec::ParallelSpec& parallel,
                                      int stage);

// Layers of a virtual stage that are not recomputed. REQUIRES: parts.recomputed is not empty.
spec::PerForm<int> KeptForms(const StepParts& parts, size_t virtual_stage);

// Whether gradients are reduced beside the backward pass. On a pool of cores a reduction takes
// cores from the pass, and nothing is hidden.
bool OverlapsReduction(const JobCosts& costs, const spec::ParallelSpec& parallel);

// What this job can describe but no price is known for.
std::vector<spec::Violation> FindUnpriced(const Job& job, const spec::ParallelSpec& parallel);

}  // namespace tessera::cost_model
