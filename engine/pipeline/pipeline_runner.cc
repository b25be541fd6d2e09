#include "engine/pipeline/pipeline_runner.h"

#include <utility>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

// One tag for each (sending virtual stage, micro-batch, direction) of a step.
int TagOf(int sending_stage, int microbatch, bool forward) {
  constexpr int kMaxMicrobatches = 1 << 16;
  TESSERA_CHECK(microbatch < kMaxMicrobatches, "micro-batch ", microbatch);
  return (sending_stage * kMaxMicrobatches + microbatch) * 2 + (forward ? 0 : 1);
}

}  // namespace

PipelineRunner::PipelineRunner(const LayerContext& context, std::vector<StageModel>& chunks,
                               std::function<Microbatch(int)> data,
                               const std::vector<spec::Action>& actions,
                               std::function<void(int)> layer_done)
    : context_(context),
      chunks_(chunks),
      data_(std::move(data)),
      layer_done_(std::move(layer_done)),
      num_stages_(context.parallel.pipeline_parallel_size) {
  for (const spec::Action& action : actions) {
    if (action.kind != spec::ActionKind::kBackward) continue;
    last_microbatch_[action.virtual_stage] = action.microbatch;
  }
}

StageModel& PipelineRunner::ChunkOf(int virtual_stage) {
  return chunks_.at(static_cast<size_t>(virtual_stage / num_stages_));
}

bool PipelineRunner::IsLast(int virtual_stage) const {
  return virtual_stage == num_stages_ * context_.parallel.virtual_pipeline_size - 1;
}

Buffer PipelineRunner::Take(Mailbox& mailbox, Key key) {
  const auto found = mailbox.find(key);
  TESSERA_CHECK(found != mailbox.end(), "nothing there for virtual stage ", key.first,
                ", micro-batch ", key.second);
  Buffer buffer = std::move(found->second);
  mailbox.erase(found);
  return buffer;
}

void PipelineRunner::Forward(const spec::Action& action) {
  const Key key{action.virtual_stage, action.microbatch};
  Buffer input;
  if (action.virtual_stage > 0) input = Take(activations_in_, key);
  Buffer output = ChunkOf(action.virtual_stage)
                      .Forward(action.microbatch, data_(action.microbatch), std::move(input));
  if (!IsLast(action.virtual_stage)) activations_out_[key] = std::move(output);
}

void PipelineRunner::Backward(const spec::Action& action) {
  const Key key{action.virtual_stage, action.microbatch};
  Buffer dy;
  if (!IsLast(action.virtual_stage)) dy = Take(gradients_in_, key);
  const bool is_last = action.microbatch == last_microbatch_.at(action.virtual_stage);
  Buffer dx = ChunkOf(action.virtual_stage)
                  .Backward(action.microbatch, std::move(dy),
                            is_last ? layer_done_ : std::function<void(int)>());
  if (action.virtual_stage > 0) gradients_out_[key] = std::move(dx);
}

void PipelineRunner::Exchange(std::span<const spec::Action> transfers) {
  Communicator& pipeline = *context_.groups.pipeline;
  std::vector<Buffer> in_flight;  // outgoing buffers, until the group completes
  pipeline.GroupStart();
  for (const spec::Action& transfer : transfers) Post(transfer, in_flight);
  pipeline.GroupEnd();
}

void PipelineRunner::Post(const spec::Action& transfer, std::vector<Buffer>& in_flight) {
  Communicator& pipeline = *context_.groups.pipeline;
  const int64_t elements = spec::PipelineTransferElements(context_.shape);
  const int stage = transfer.virtual_stage;
  const Key key{stage, transfer.microbatch};
  const int next = (stage + 1) % num_stages_;
  const int previous = (stage + num_stages_ - 1) % num_stages_;
  const auto send = [&](Mailbox& outbox, int peer, bool forward) {
    in_flight.push_back(Take(outbox, key));
    pipeline.Send(in_flight.back().data(), elements, in_flight.back().dtype(), peer,
                  TagOf(stage, transfer.microbatch, forward));
  };
  const auto receive = [&](Mailbox& inbox, int peer, int sending_stage, bool forward) {
    // The first layer keeps its input.
    const Lifetime lifetime = forward ? Lifetime::kStep : Lifetime::kPass;
    Buffer& buffer = inbox[key] = context_.Workspace(elements, lifetime);
    pipeline.Recv(buffer.data(), elements, buffer.dtype(), peer,
                  TagOf(sending_stage, transfer.microbatch, forward));
  };
  switch (transfer.kind) {
    case spec::ActionKind::kSendForward:
      send(activations_out_, next, true);
      break;
    case spec::ActionKind::kRecvForward:
      receive(activations_in_, previous, stage - 1, true);
      break;
    case spec::ActionKind::kSendBackward:
      send(gradients_out_, previous, false);
      break;
    case spec::ActionKind::kRecvBackward:
      receive(gradients_in_, next, stage + 1, false);
      break;
    case spec::ActionKind::kForward:
    case spec::ActionKind::kBackward:
    case spec::ActionKind::kBackwardInput:
    case spec::ActionKind::kBackwardWeight:
      TESSERA_CHECK(false, "a pass among transfers");
      break;
  }
}

}  // namespace tessera::engine
