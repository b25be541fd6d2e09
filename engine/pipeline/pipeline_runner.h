// Runs the actions of one pipeline stage on its model chunks: computes, keeps what is in transit,
// talks to the neighbouring stages.
#pragma once

#include <functional>
#include <map>
#include <memory>
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

  // From now on the passes are of these actions.
  void SetActions(const std::vector<spec::Action>& actions);

  void Forward(const spec::Action& action) override;
  void Backward(const spec::Action& action) override;
  void BackwardInput(const spec::Action& action) override;
  void BackwardWeight(const spec::Action& action) override;
  void Exchange(std::span<const spec::Action> transfers) override;
  bool AwaitInput(const spec::Action& pass) override;
  bool AwaitAll() override;
  size_t Mark() override { return context_.backend.Mark(); }
  int64_t HeldBytes() const override { return context_.pool.live_bytes(); }

 protected:
  // What a forward pass computes; returns the output.
  virtual Buffer ForwardThrough(StageModel& chunk, int microbatch, Buffer input) {
    return chunk.Forward(microbatch, data_(microbatch), std::move(input));
  }
  Microbatch DataOf(int microbatch) const { return data_(microbatch); }

 private:
  using Key = std::pair<int, int>;  // virtual stage, micro-batch
  using Mailbox = std::map<Key, Buffer>;

  // Posted, and not yet waited for.
  struct ExchangeUnderWay {
    std::unique_ptr<CommHandle> handle;
    std::vector<Buffer> outgoing;
    std::vector<spec::Action> receives;
    void Wait();
  };

  StageModel& ChunkOf(int virtual_stage);
  bool IsLast(int virtual_stage) const;
  // layer_done where the action is the last one that changes its layers' gradients, else none.
  std::function<void(int)> LayerDoneOf(const spec::Action& action) const;
  // Gradient of the output: received, or none on the last virtual stage.
  Buffer TakeGradient(const spec::Action& action);
  // Moves what was received out of a mailbox, whole.
  Buffer TakeReceived(Mailbox& mailbox, Key key);
  // Moves a buffer out of a mailbox, which must hold it.
  static Buffer Take(Mailbox& mailbox, Key key);
  void Post(const spec::Action& transfer, std::vector<Buffer>& outgoing);

  const LayerContext& context_;
  std::vector<StageModel>& chunks_;
  std::function<Microbatch(int)> data_;
  std::map<int, int> last_microbatch_;  // that changes gradients of layers, by virtual stage
  std::function<void(int)> layer_done_;
  int num_stages_;
  std::vector<ExchangeUnderWay> under_way_;
  Mailbox activations_in_;
  Mailbox activations_out_;
  Mailbox gradients_in_;
  Mailbox gradients_out_;
};

// Runs forward passes alone, which keep nothing.
class ForwardOnlyRunner final : public PipelineRunner {
 public:
  // `observer(microbatch, part, ...)`, empty for none: see OutputObserver.
  using Observer = std::function<void(int microbatch, int part, kernels::ConstArray output,
                                      int64_t num_elements)>;
  ForwardOnlyRunner(const LayerContext& context, std::vector<StageModel>& chunks,
                    std::function<Microbatch(int)> data, Observer observer)
      : PipelineRunner(context, chunks, std::move(data), {}, {}), observer_(std::move(observer)) {}

 protected:
  Buffer ForwardThrough(StageModel& chunk, int microbatch, Buffer input) override {
    OutputObserver observer;
    if (observer_) {
      observer = [&](int part, kernels::ConstArray output, int64_t num_elements) {
        observer_(microbatch, part, output, num_elements);
      };
    }
    return chunk.ForwardOnly(microbatch, DataOf(microbatch), std::move(input), observer);
  }

 private:
  Observer observer_;
};

}  // namespace tessera::engine
