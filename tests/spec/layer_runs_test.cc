#include "cost_model/spec/layer_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tessera::spec {
namespace {

// The slower way: one layer after the other, forward and then backward, in one part or in two.
StageActivationBytes Replay(const std::vector<LayerBytes>& layers, const StageEndBytes& ends) {
  StageActivationBytes bytes;
  int64_t held = ends.own_bytes;
  const auto note = [](int64_t& most, int64_t now) { most = std::max(most, now); };
  for (const LayerBytes& layer : layers) held += layer.kept_bytes;
  bytes.layers_bytes = held;
  bytes.saved_bytes = held + ends.head_kept_bytes;
  note(bytes.working_bytes, held + ends.head_peak_bytes);
  int64_t with_operands = held;
  bytes.input_part_bytes = bytes.working_bytes;
  for (size_t i = layers.size(); i-- > 0;) {
    note(bytes.working_bytes, held + layers[i].running_bytes);
    note(bytes.input_part_bytes, with_operands + layers[i].running_bytes);
    held -= layers[i].kept_bytes;
    with_operands += layers[i].weight_operand_bytes - layers[i].kept_bytes;
    note(bytes.input_part_bytes, with_operands);
  }
  bytes.weight_operand_bytes = with_operands - held;
  return bytes;
}

TEST(LayerRunsTest, HoldWhatTheirLayersHoldOneByOne) {
  std::mt19937 random(23);
  const auto draw = [&](int below) { return static_cast<int64_t>(random() % below); };
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<LayerRun> runs(random() % 4);
    std::vector<LayerBytes> layers;
    for (LayerRun& run : runs) {
      run = {1 + static_cast<int>(random() % 5), {draw(40), draw(60), draw(40)}};
      layers.insert(layers.end(), run.num_layers, run.layer);
    }
    StageEndBytes ends{.own_bytes = draw(10), .head_kept_bytes = draw(2) * draw(100)};
    ends.head_peak_bytes = ends.head_kept_bytes + draw(50);
    const StageActivationBytes found = HoldLayers(runs, ends);
    const StageActivationBytes expected = Replay(layers, ends);
    EXPECT_EQ(found.layers_bytes, expected.layers_bytes) << trial;
    EXPECT_EQ(found.saved_bytes, expected.saved_bytes) << trial;
    EXPECT_EQ(found.working_bytes, expected.working_bytes) << trial;
    EXPECT_EQ(found.weight_operand_bytes, expected.weight_operand_bytes) << trial;
    EXPECT_EQ(found.input_part_bytes, expected.input_part_bytes) << trial;
  }
}

// Layers whose operands weigh more than what they kept before: most is held at the end, when all of
// them wait.
TEST(LayerRunsTest, OperandsOfAllLayersWaitTogether) {
  const std::vector<LayerRun> runs = {{3, {.kept_bytes = 2, .weight_operand_bytes = 7}}};
  EXPECT_EQ(HoldLayers(runs, {.own_bytes = 1}).input_part_bytes, 1 + 3 * 7);
}

}  // namespace
}  // namespace tessera::spec
