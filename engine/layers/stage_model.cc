#include "engine/layers/stage_model.h"

#include <utility>

#include "cost_model/base/check.h"

namespace tessera::engine {

StageModel::StageModel(const LayerContext& context, const ParameterStore& store,
                       const spec::VirtualStage& stage)
    : context_(context), stage_(stage) {
  if (stage.has_embedding) embedding_.emplace(context, store);
  for (int i = 0; i < stage.num_layers; ++i) {
    layers_.emplace_back(context, store, stage.first_layer + i);
  }
  if (stage.has_head) head_.emplace(context, store);
}

Buffer StageModel::CopyTokens(const int32_t* host) const {
  const int64_t tokens = context_.shape.tokens;
  Buffer device = context_.pool.Allocate(MemoryKind::kActivations, base::DType::kInt32, tokens);
  context_.backend.CopyToDevice(device.data(), host, static_cast<size_t>(device.bytes()));
  return device;
}

Buffer StageModel::Forward(int microbatch, const Microbatch& data, Buffer input) {
  const bool is_new = stashes_.find(microbatch) == stashes_.end();
  TESSERA_CHECK(is_new, "micro-batch ", microbatch, " went forward twice on stage ", stage_.index);
  Stash& stash = stashes_[microbatch];
  Buffer x = std::move(input);
  if (embedding_) {
    stash.embedding.tokens = CopyTokens(data.tokens);
    x = embedding_->Forward(stash.embedding);
  }
  stash.layers.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    x = layers_[i].Forward(std::move(x), stash.layers[i]);
  }
  if (head_) {
    stash.head.labels = CopyTokens(data.labels);
    head_->Forward(std::move(x), stash.head);
    return {};
  }
  return x;
}

Buffer StageModel::Backward(int microbatch, Buffer dy,
                            const std::function<void(int layer)>& layer_done) {
  const auto found = stashes_.find(microbatch);
  TESSERA_CHECK(found != stashes_.end(), "micro-batch ", microbatch, " goes backward on stage ",
                stage_.index, " before it went forward");
  Stash& stash = found->second;
  if (head_) dy = head_->Backward(stash.head);
  for (size_t i = layers_.size(); i-- > 0;) {
    layers_[i].Backward(stash.layers[i], dy);
    if (layer_done) layer_done(stage_.first_layer + static_cast<int>(i));
  }
  if (embedding_) {
    embedding_->Backward(stash.embedding, dy);
    dy.Reset();
  }
  stashes_.erase(found);
  return dy;
}

}  // namespace tessera::engine
