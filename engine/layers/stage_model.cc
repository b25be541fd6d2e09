#include "engine/layers/stage_model.h"

#include <utility>

#include "cost_model/base/check.h"

namespace tessera::engine {

StageModel::StageModel(const LayerContext& context, const ParameterStore& store,
                       const spec::VirtualStage& stage, PartHooks& hooks)
    : context_(context),
      stage_(stage),
      keeps_documents_(!DocumentSavedTensors(context.model, context.shape, stage).empty()),
      hooks_(hooks) {
  if (stage.has_embedding) embedding_.emplace(context, store);
  const int num_recomputed = context.parallel.recompute == spec::Recompute::kFull
                                 ? spec::RecomputedLayers(context.parallel, stage)
                                 : 0;
  for (int i = 0; i < stage.num_layers; ++i) {
    layers_.emplace_back(context, store, stage.first_layer + i, i < num_recomputed);
  }
  if (stage.has_head) head_.emplace(context, store);
}

Buffer StageModel::CopyTokens(const int32_t* host, int64_t num_tokens) const {
  Buffer device = context_.pool.Allocate(MemoryKind::kActivations, base::DType::kInt32, num_tokens);
  context_.backend.CopyFromPinned(device.data(), host, static_cast<size_t>(device.bytes()));
  return device;
}

void StageModel::TellSamples(int microbatch) const {
  context_.dropout.first_sample =
      spec::FirstSampleOf(context_.parallel, microbatch, context_.groups.coord.data);
}

void StageModel::TellDocuments(const Stash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  context_.documents.running = {.starts = stash.document_starts.array(),
                                .sequence = shape.sequence * shape.context_parallel_size};
}

Buffer StageModel::Forward(int microbatch, const Microbatch& data, Buffer input) {
  const bool is_new = stashes_.find(microbatch) == stashes_.end();
  TESSERA_CHECK(is_new, "micro-batch ", microbatch, " went forward twice on stage ", stage_.index);
  TellSamples(microbatch);
  return ForwardThrough(stashes_[microbatch], data, std::move(input), {});
}

Buffer StageModel::ForwardOnly(int microbatch, const Microbatch& data, Buffer input,
                               const OutputObserver& observer) {
  TellSamples(microbatch);
  Stash stash;
  const int64_t hidden_elements = context_.shape.local_tokens * context_.shape.hidden;
  const int64_t logit_elements = context_.shape.tokens * context_.shape.vocab;
  const auto done = [&](int part, const Buffer& output) {
    const bool is_head = part == spec::kHeadPart;
    if (observer) {
      observer(part, is_head ? stash.head.dlogits.array() : output.array(),
               is_head ? logit_elements : hidden_elements);
    }
    if (part >= 0) stash.layers[static_cast<size_t>(part - stage_.first_layer)] = {};
  };
  return ForwardThrough(stash, data, std::move(input), done);
}

Buffer StageModel::ForwardThrough(Stash& stash, const Microbatch& data, Buffer input,
                                  const std::function<void(int part, const Buffer& output)>& done) {
  Buffer x = std::move(input);
  const int64_t num_tokens = context_.shape.tokens;
  if (keeps_documents_) {
    stash.document_starts =
        CopyTokens(data.document_starts, num_tokens * context_.shape.context_parallel_size);
  }
  TellDocuments(stash);
  if (embedding_) {
    stash.embedding.tokens = CopyTokens(data.tokens, num_tokens);
    hooks_.BeforeForward(spec::kEmbeddingPart);
    x = embedding_->Forward(stash.embedding);
    if (done) done(spec::kEmbeddingPart, x);
  }
  stash.layers.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    hooks_.BeforeForward(LayerNumber(i));
    x = layers_[i].Forward(std::move(x), stash.layers[i]);
    if (done) done(LayerNumber(i), x);
  }
  if (head_) {
    stash.head.labels = CopyTokens(data.labels, num_tokens);
    hooks_.BeforeForward(spec::kHeadPart);
    head_->Forward(std::move(x), stash.head);
    if (done) done(spec::kHeadPart, x);
    return {};
  }
  return x;
}

Buffer StageModel::Backward(int microbatch, Buffer dy,
                            const std::function<void(int layer)>& layer_done) {
  return BackwardThrough(microbatch, std::move(dy), nullptr, layer_done);
}

Buffer StageModel::BackwardInput(int microbatch, Buffer dy) {
  const auto [put_off, is_new] = put_off_.try_emplace(microbatch, layers_.size());
  TESSERA_CHECK(is_new, "micro-batch ", microbatch, " went backward twice on stage ", stage_.index);
  return BackwardThrough(microbatch, std::move(dy), &put_off->second, {});
}

void StageModel::BackwardWeight(int microbatch, const std::function<void(int layer)>& layer_done) {
  const auto found = put_off_.find(microbatch);
  TESSERA_CHECK(found != put_off_.end(), "no products of micro-batch ", microbatch,
                " are put off on stage ", stage_.index);
  for (size_t i = layers_.size(); i-- > 0;) {
    found->second[i].Run();
    if (layer_done) layer_done(stage_.first_layer + static_cast<int>(i));
  }
  put_off_.erase(found);
}

// `put_off`: where the layers' products go that give weight gradients; null, and they run.
Buffer StageModel::BackwardThrough(int microbatch, Buffer dy, Products* put_off,
                                   const std::function<void(int layer)>& layer_done) {
  const auto found = stashes_.find(microbatch);
  TESSERA_CHECK(found != stashes_.end(), "micro-batch ", microbatch, " goes backward on stage ",
                stage_.index, " before it went forward");
  Stash& stash = found->second;
  TellSamples(microbatch);
  TellDocuments(stash);
  if (head_) {
    hooks_.BeforeBackward(spec::kHeadPart);
    dy = head_->Backward(stash.head);
    hooks_.AfterBackward(spec::kHeadPart);
  }
  for (size_t i = layers_.size(); i-- > 0;) {
    hooks_.BeforeBackward(LayerNumber(i));
    if (put_off != nullptr) context_.part.put_off = &(*put_off)[i];
    layers_[i].Backward(stash.layers[i], dy);
    if (put_off != nullptr) (*put_off)[i].HoldOperands();
    context_.part.put_off = nullptr;
    hooks_.AfterBackward(LayerNumber(i));
    if (layer_done) layer_done(LayerNumber(i));
  }
  if (embedding_) {
    hooks_.BeforeBackward(spec::kEmbeddingPart);
    embedding_->Backward(stash.embedding, dy);
    hooks_.AfterBackward(spec::kEmbeddingPart);
    dy.Reset();
  }
  stashes_.erase(found);
  return dy;
}

}  // namespace tessera::engine
