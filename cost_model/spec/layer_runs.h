// What the layers of a virtual stage hold together, one micro-batch's, in the order of its passes.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/layer_form.h"
#include "cost_model/spec/op_list.h"

namespace tessera::spec {

// Bytes of one layer: kept between its forward and its backward pass; what comes on top while its
// backward pass runs; kept for its weight pass.
struct LayerBytes {
  int64_t kept_bytes = 0;
  int64_t running_bytes = 0;
  int64_t weight_operand_bytes = 0;
};

// Layers alike, one after the other.
struct LayerRun {
  int num_layers = 0;
  LayerBytes layer;
};

// Appends runs of so many layers of each form, dense ones first, as they lie in a model. Windows
// change no bytes.
void AppendLayerRuns(const PerForm<int>& num_layers, const PerForm<LayerBytes>& by_form,
                     std::vector<LayerRun>& runs);

// Beside its layers: `own_bytes` held from the first forward to the last backward operation, the
// head's, kept and at most.
struct StageEndBytes {
  int64_t own_bytes = 0;
  int64_t head_kept_bytes = 0;
  int64_t head_peak_bytes = 0;
};

// Layers come and go one by one. When one runs backward, those behind it have let go of what they
// kept; their weight operands, if there are any, have taken its place.
StageActivationBytes HoldLayers(const std::vector<LayerRun>& runs, const StageEndBytes& ends);

}  // namespace tessera::spec
