// Runs the actions of one pipeline stage on its model chunks: computes, keeps what is in transit,
// talks to the neighbouring stages.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/layers/stage_model.h"
#include "engine/pipeline/schedule_executor.h"

namespace tessera::engine {

class PipelineRunner : public StageRunner {
 public:
  // `chunks`: of this stage, by chunk. `data(microbatch)`: its tokens and labels.
  // `layer_done(layer)`, empty for none: called when the last of `actions` that changes a layer's
  // gradients has done so.
  PipelineRunner(const LayerContext& context, std::vector<StageModel>& chunks,
                 std::function<Microbatch(int)> data, const std::vector<spec::Action>& actions,
                 std::function<void(int)> layer_done);

  void Forward(const spec::Action& action) override;
  void Backward(const spec::Action& action) override;
  void Exchange(std::span<const spec::Action> transfers) override;
  size_t Mark() override { return context_.backend.Mark(); }
  int64_t HeldBytes() const override { return context_.pool.live_bytes(); }

 private:
  using Key = std::pair<int, int>;  // virtual stage, micro-batch
  using Mailbox = std::map<Key, Buffer>;

  StageModel& ChunkOf(int virtual_stage);
  bool IsLast(int virtual_stage) const;
  // Moves a buffer out of a mailbox, which must hold it.
  static Buffer Take(Mailbox& mailbox, Key key);
  void Post(const spec::Action& transfer, std::vector<Buffer>& in_flight);

  const LayerContext& context_;
  std::vector<StageModel>& chunks_;
  std::function<Microbatch(int)> data_;
  std::map<int, int> last_microbatch_;  // that goes backward, by virtual stage
  std::function<void(int)> layer_done_;
  int num_stages_;
  Mailbox activations_in_;
  Mailbox activations_out_;
  Mailbox gradients_in_;
  Mailbox gradients_out_;
};

}  // namespace tessera::engine
