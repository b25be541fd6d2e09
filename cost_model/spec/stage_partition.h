// Which layers each virtual stage holds.
#pragma once

#include <vector>

#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// Chunk c of pipeline stage r is virtual stage c * pp + r; layers follow that order.
struct VirtualStage {
  int index = 0;
  int pipeline_stage = 0;
  int chunk = 0;
  int first_layer = 0;
  int num_layers = 0;
  bool has_embedding = false;  // first virtual stage
  bool has_head = false;       // last virtual stage: final norm, output projection, loss
  bool operator==(const VirtualStage&) const = default;
};

// All pp * vpp virtual stages in order. Layers as parallel.layers_per_virtual_stage says; if empty,
// as even as can be, the remainder going to the middle stages first (the first and last stage carry
// embedding and head).
// REQUIRES: FindViolations is empty.
std::vector<VirtualStage> PartitionStages(const ModelSpec& model, const ParallelSpec& parallel);

// The virtual stages of one pipeline stage, by chunk.
std::vector<VirtualStage> StagesOf(const std::vector<VirtualStage>& stages, int pipeline_stage);

// How many layers of a stage, the first ones, are recomputed as parallel.recompute says; the others
// are not recomputed at all: as KeepingLayers describes them.
int RecomputedLayers(const ParallelSpec& parallel, const VirtualStage& stage);
ParallelSpec KeepingLayers(const ParallelSpec& parallel);

}  // namespace tessera::spec
