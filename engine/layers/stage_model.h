// The part of the model on one virtual stage, forward and backward for one micro-batch at a time.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "engine/layers/embedding.h"
#include "engine/layers/head.h"
#include "engine/layers/part_hooks.h"
#include "engine/layers/transformer_layer.h"

namespace tessera::engine {

// Tokens and labels of one micro-batch: int32 [batch * sequence] each, in host memory that the
// device reads by itself (kernels::Backend::AllocatePinned), at any time until the step ends.
struct Microbatch {
  const int32_t* tokens = nullptr;
  const int32_t* labels = nullptr;
  // As kernels::DocumentStarts, of whole samples; where a stage keeps spec::DocumentSavedTensors.
  const int32_t* document_starts = nullptr;
};

// Sees what a part has made of a micro-batch: the hidden states behind the embedding or a layer; of
// the head, the gradients of its logits.
using OutputObserver =
    std::function<void(int part, kernels::ConstArray output, int64_t num_elements)>;

class StageModel {
 public:
  // `hooks`, which must outlive it, hears of every pass through a part.
  StageModel(const LayerContext& context, const ParameterStore& store,
             const spec::VirtualStage& stage, PartHooks& hooks);

  // `input`: the previous virtual stage's output [local_tokens, hidden], empty on the first.
  // Returns this one's output, empty on the last, where the loss goes to the context's target.
  Buffer Forward(int microbatch, const Microbatch& data, Buffer input);
  // The same for a loss without gradients: keeps nothing. `observer` may be empty.
  Buffer ForwardOnly(int microbatch, const Microbatch& data, Buffer input,
                     const OutputObserver& observer);
  // `dy`: gradient of the output, empty on the last virtual stage. Returns the gradient of the
  // input, empty on the first. `layer_done`, empty for none, is called with each layer's number
  // once the pass has changed its gradients.
  Buffer Backward(int microbatch, Buffer dy, const std::function<void(int layer)>& layer_done);

  // The same in two parts: without the products that give the layers' weight gradients, and these.
  Buffer BackwardInput(int microbatch, Buffer dy);
  void BackwardWeight(int microbatch, const std::function<void(int layer)>& layer_done);

  const spec::VirtualStage& stage() const { return stage_; }

 private:
  struct Stash {
    Buffer document_starts;  // int32 [batch, whole sequence] or empty
    EmbeddingStash embedding;
    std::vector<LayerStash> layers;
    HeadStash head;
  };
  using Products = std::vector<WeightProducts>;  // by layer
  int LayerNumber(size_t i) const { return stage_.first_layer + static_cast<int>(i); }
  Buffer CopyTokens(const int32_t* host, int64_t num_tokens) const;
  // To the layers: whose masks to draw, and where documents begin.
  void TellSamples(int microbatch) const;
  void TellDocuments(const Stash& stash) const;
  // `done`, empty for none, is called behind each part, while its stash is whole.
  Buffer ForwardThrough(Stash& stash, const Microbatch& data, Buffer input,
                        const std::function<void(int part, const Buffer& output)>& done);
  Buffer BackwardThrough(int microbatch, Buffer dy, Products* put_off,
                         const std::function<void(int layer)>& layer_done);

  const LayerContext& context_;
  spec::VirtualStage stage_;
  bool keeps_documents_;
  PartHooks& hooks_;
  std::optional<Embedding> embedding_;
  std::vector<TransformerLayer> layers_;
  std::optional<Head> head_;
  std::map<int, Stash> stashes_;     // by micro-batch
  std::map<int, Products> put_off_;  // by micro-batch
};

}  // namespace tessera::engine
