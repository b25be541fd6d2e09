// What a training program holds for backward passes: Tessera's tensors (op_list.h) with what the
// behaviours of a runtime add, replace or let go. All bytes are of one micro-batch on one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/layer_runs.h"
#include "cost_model/spec/op_list.h"
#include "cost_model/spec/runtime_spec.h"

namespace tessera::spec {

struct LayerTensors {
  std::vector<SavedTensor> kept;      // from the forward to the backward pass
  std::vector<SavedTensor> restored;  // by recomputation, for one layer at a time
};
// A runtime of Tessera's behaviours has LayerSavedTensors and LayerRecomputedTensors.
// Dropout: Korthikanti et al. 2022, arXiv:2205.05198, section 4.1: masks of a byte an element; of
// the probabilities the dropped copy too.
LayerTensors LayerTensorsOf(const ModelSpec& model, const TrainingSpec& training,
                            const ParallelSpec& parallel, const LayerForm& form,
                            const LocalShape& shape, const RuntimeSpec& runtime);

// What the head keeps. The logits take 4 bytes each where their gradient is fp32 or a copy of them
// is, else an activation's.
std::vector<SavedTensor> HeadKeptTensors(const ModelSpec& model, const TrainingSpec& training,
                                         const ParallelSpec& parallel, const LocalShape& shape,
                                         const RuntimeSpec& runtime);

// Most bytes that a layer's backward pass holds beyond the layer's tensors, with autograd; 0
// without. With l the gradient of the layer's output, T tokens, widths h hidden and f MLP, W1 and
// W2 the MLP's weights (their gradients, where these are not added to the main ones by the
// product), in elements the largest of
//   l + 2 f T (f T without a gate)    activation: its input's gradient; its output is gone
//   l + f T + W2                      second product
//   l - f T + h T + W1                first product
//   l + 2 a s^2 b - MLP's tensors     softmax of unfused attention: gradients before and after
// and of a layer of experts, with R rows routed to those here and their width f,
//   3 R (h + f) + 3 l                 tokens brought to the experts and back, and their gradients
// or the softmax's line with the experts' tensors in place of the MLP's.
// Read off Megatron-Core with Transformer Engine: explains SimuMax's published bytes of dense
// models to 0.02 %, of experts to 0.7 %.
int64_t LayerWorkingBytes(const ModelSpec& model, const TrainingSpec& training,
                          const ParallelSpec& parallel, const LayerForm& form,
                          const LocalShape& shape, const RuntimeSpec& runtime);

// Most bytes of the head at once, its kept tensors included: as the loss is computed, or as the
// gradients of weights and inputs are.
int64_t HeadPeakBytes(const ModelSpec& model, const TrainingSpec& training,
                      const ParallelSpec& parallel, const LocalShape& shape,
                      const RuntimeSpec& runtime);

// One layer of a form; weight operands where the schedule has weight passes.
LayerBytes LayerBytesOf(const ModelSpec& model, const TrainingSpec& training,
                        const ParallelSpec& parallel, const LayerForm& form,
                        const LocalShape& shape, const RuntimeSpec& runtime);

// One micro-batch on a virtual stage. A runtime of Tessera's behaviours: what the engine holds.
StageActivationBytes KeptBytesOf(const ModelSpec& model, const TrainingSpec& training,
                                 const ParallelSpec& parallel, const VirtualStage& stage,
                                 const RuntimeSpec& runtime);

}  // namespace tessera::spec
