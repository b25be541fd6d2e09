#include "cost_model/spec/layer_runs.h"

#include <algorithm>

namespace tessera::spec {

void AppendLayerRuns(const PerForm<int>& num_layers, const PerForm<LayerBytes>& by_form,
                     std::vector<LayerRun>& runs) {
  for (size_t form = 0; form < kNumLayerForms; ++form) {
    if (num_layers[form] > 0) runs.push_back({num_layers[form], by_form[form]});
  }
}

StageActivationBytes HoldLayers(const std::vector<LayerRun>& runs, const StageEndBytes& ends) {
  StageActivationBytes bytes;
  bytes.layers_bytes = ends.own_bytes;
  for (const LayerRun& run : runs) {
    bytes.layers_bytes += run.num_layers * run.layer.kept_bytes;
    bytes.weight_operand_bytes += run.num_layers * run.layer.weight_operand_bytes;
  }
  bytes.saved_bytes = bytes.layers_bytes + ends.head_kept_bytes;
  const int64_t with_head_bytes =
      bytes.layers_bytes + std::max(ends.head_kept_bytes, ends.head_peak_bytes);
  bytes.working_bytes = with_head_bytes;
  bytes.input_part_bytes = std::max(with_head_bytes, ends.own_bytes + bytes.weight_operand_bytes);
  int64_t before_bytes = ends.own_bytes;  // kept by the layers before a run
  int64_t behind_bytes = bytes.weight_operand_bytes;
  for (const LayerRun& run : runs) {
    const LayerBytes& layer = run.layer;
    const int64_t first_bytes = before_bytes + layer.kept_bytes + layer.running_bytes;
    const int64_t last_bytes = first_bytes + (run.num_layers - 1) * layer.kept_bytes;
    behind_bytes -= run.num_layers * layer.weight_operand_bytes;
    bytes.working_bytes = std::max(bytes.working_bytes, last_bytes);
    // Within a run what is held changes evenly, so its ends decide.
    bytes.input_part_bytes =
        std::max({bytes.input_part_bytes, last_bytes + behind_bytes,
                  first_bytes + behind_bytes + (run.num_layers - 1) * layer.weight_operand_bytes});
    before_bytes += run.num_layers * layer.kept_bytes;
  }
  return bytes;
}

}  // namespace tessera::spec
