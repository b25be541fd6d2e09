#include "engine/pipeline/pipeline_runner.h"

#include <algorithm>
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
  SetActions(actions);
}

void PipelineRunner::SetActions(const std::vector<spec::Action>& actions) {
  last_microbatch_.clear();
  for (const spec::Action& action : actions) {
    const bool changes_gradients = action.kind == spec::ActionKind::kBackward ||
                                   action.kind == spec::ActionKind::kBackwardWeight;
    if (changes_gradients) last_microbatch_[action.virtual_stage] = action.microbatch;
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

Buffer PipelineRunner::TakeReceived(Mailbox& mailbox, Key key) {
  Buffer received = Take(mailbox, key);
  const int64_t elements = spec::SentTransferElements(context_.parallel, context_.shape);
  const int64_t all_elements = spec::PipelineTransferElements(context_.shape);
  if (elements == all_elements) return received;
  Buffer whole = context_.Workspace(all_elements, Lifetime::kStep);
  context_.tensor_comm.Run([&] {
    context_.groups.tensor->AllGather(received.data(), whole.data(), elements, whole.dtype());
  });
  return whole;
}

void PipelineRunner::Forward(const spec::Action& action) {
  const Key key{action.virtual_stage, action.microbatch};
  Buffer input;
  if (action.virtual_stage > 0) input = TakeReceived(activations_in_, key);
  Buffer output =
      ForwardThrough(ChunkOf(action.virtual_stage), action.microbatch, std::move(input));
  if (!IsLast(action.virtual_stage)) activations_out_[key] = std::move(output);
}

std::function<void(int)> PipelineRunner::LayerDoneOf(const spec::Action& action) const {
  const bool is_last = action.microbatch == last_microbatch_.at(action.virtual_stage);
  return is_last ? layer_done_ : std::function<void(int)>();
}

Buffer PipelineRunner::TakeGradient(const spec::Action& action) {
  if (IsLast(action.virtual_stage)) return {};
  return TakeReceived(gradients_in_, {action.virtual_stage, action.microbatch});
}

void PipelineRunner::Backward(const spec::Action& action) {
  Buffer dx = ChunkOf(action.virtual_stage)
                  .Backward(action.microbatch, TakeGradient(action), LayerDoneOf(action));
  if (action.virtual_stage == 0) return;
  gradients_out_[{action.virtual_stage, action.microbatch}] = std::move(dx);
}

void PipelineRunner::BackwardInput(const spec::Action& action) {
  Buffer dx = ChunkOf(action.virtual_stage).BackwardInput(action.microbatch, TakeGradient(action));
  if (action.virtual_stage == 0) return;
  gradients_out_[{action.virtual_stage, action.microbatch}] = std::move(dx);
}

void PipelineRunner::BackwardWeight(const spec::Action& action) {
  ChunkOf(action.virtual_stage).BackwardWeight(action.microbatch, LayerDoneOf(action));
}

void PipelineRunner::ExchangeUnderWay::Wait() {
  if (!handle) return;
  std::exchange(handle, nullptr)->Wait();
  outgoing.clear();
}

void PipelineRunner::Exchange(std::span<const spec::Action> transfers) {
  Communicator& pipeline = *context_.groups.pipeline;
  // What was sent before the last exchange.
  for (size_t i = 0; i + 1 < under_way_.size(); ++i) {
    if (!under_way_[i].outgoing.empty()) under_way_[i].Wait();
  }
  std::erase_if(under_way_, [](const ExchangeUnderWay& exchange) { return !exchange.handle; });
  ExchangeUnderWay exchange;
  pipeline.GroupStart();
  for (const spec::Action& transfer : transfers) {
    Post(transfer, exchange.outgoing);
    if (spec::IsRecv(transfer.kind)) exchange.receives.push_back(transfer);
  }
  exchange.handle = pipeline.GroupEndAsync();
  if (context_.parallel.overlap_pp_comm) {
    under_way_.push_back(std::move(exchange));
  } else {
    exchange.Wait();
  }
}

bool PipelineRunner::AwaitInput(const spec::Action& pass) {
  const spec::ActionKind kind = pass.kind == spec::ActionKind::kForward
                                    ? spec::ActionKind::kRecvForward
                                    : spec::ActionKind::kRecvBackward;
  for (ExchangeUnderWay& exchange : under_way_) {
    const bool has_input = std::any_of(
        exchange.receives.begin(), exchange.receives.end(), [&](const spec::Action& receive) {
          return receive.kind == kind && receive.virtual_stage == pass.virtual_stage &&
                 receive.microbatch == pass.microbatch;
        });
    if (!has_input || !exchange.handle) continue;
    exchange.Wait();
    return true;
  }
  return false;
}

bool PipelineRunner::AwaitAll() {
  const bool has_exchanges = !under_way_.empty();
  for (ExchangeUnderWay& exchange : under_way_) exchange.Wait();
  under_way_.clear();
  return has_exchanges;
}

void PipelineRunner::Post(const spec::Action& transfer, std::vector<Buffer>& outgoing) {
  Communicator& pipeline = *context_.groups.pipeline;
  const int64_t elements = spec::SentTransferElements(context_.parallel, context_.shape);
  const bool is_part = elements < spec::PipelineTransferElements(context_.shape);
  const int stage = transfer.virtual_stage;
  const Key key{stage, transfer.microbatch};
  const int next = (stage + 1) % num_stages_;
  const int previous = (stage + num_stages_ - 1) % num_stages_;
  const auto send = [&](Mailbox& outbox, int peer, bool forward) {
    outgoing.push_back(Take(outbox, key));
    const int64_t begin = is_part ? context_.groups.tensor->rank() * elements : 0;
    const kernels::Array sent = outgoing.back().array().At(begin);
    pipeline.Send(sent.data, elements, sent.dtype, peer,
                  TagOf(stage, transfer.microbatch, forward));
  };
  const auto receive = [&](Mailbox& inbox, int peer, int sending_stage, bool forward) {
    // The first layer keeps its input.
    const Lifetime lifetime = forward && !is_part ? Lifetime::kStep : context_.OperandLifetime();
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
