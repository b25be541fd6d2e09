// The operations of one micro-batch on one rank, and the tensors that forward passes keep. The
// engine's hand-written layers must run exactly these, in this order; the cost model prices them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/base/op.h"
#include "cost_model/base/token_positions.h"
#include "cost_model/spec/layer_form.h"
#include "cost_model/spec/parameter_list.h"
#include "cost_model/spec/pipeline_schedule.h"
#include "cost_model/spec/rank_layout.h"
#include "cost_model/spec/stage_partition.h"

namespace tessera::spec {

// Sizes on one rank, worked out once from the specs.
struct LocalShape {
  int64_t batch = 0;         // micro-batch size
  int64_t sequence = 0;      // of this rank's attention: s / cp
  int64_t tokens = 0;        // batch * sequence
  int64_t local_tokens = 0;  // tokens / tp under sequence parallelism, else tokens
  int64_t hidden = 0;
  int64_t head_dim = 0;  // of queries and keys
  int64_t value_head_dim = 0;
  int64_t heads = 0;            // query heads here
  int64_t kv_heads = 0;         // key/value heads here, replicated ones included
  int64_t qkv_width = 0;        // of all queries, keys and values here together
  int64_t attention_width = 0;  // heads * value_head_dim
  int64_t ffn = 0;              // dense MLP width here
  int64_t vocab = 0;            // padded vocabulary columns here
  int64_t element_bytes = 0;    // of an activation
  int tensor_parallel_size = 1;
  bool sequence_parallel = false;
  int context_parallel_size = 1;
  int context_rank = 0;
  base::TokenPositions positions;  // of the rank's tokens in their sequence
  // Mixtures of experts, routing balanced.
  int64_t experts = 0;           // held here
  int64_t expert_capacity = 0;   // rows that an expert takes from a rank at most; 0: dropless
  int64_t routed_rows = 0;       // rows that this rank's tokens send to experts, padding included
  int64_t expert_rows = 0;       // rows that the experts here take; ep does not change their number
  int64_t expert_ffn = 0;        // width of an expert here
  int64_t shared_ffn = 0;        // width of the shared expert here
  bool sorts_by_expert = false;  // rows that arrive are put in the order of their experts
  // Whether training drops anything: DropoutSpec.
  bool drops_hidden = false, drops_attention = false, drops_embedding = false;
  // What starts anew with each document: TrainingSpec.
  bool resets_positions = false, resets_attention = false;
};
// Context ranks run different operations of the same sizes in sum: `context_rank` says whose, none
// those of the priced one (context_tokens.h). REQUIRES: FindViolations is empty.
LocalShape MakeLocalShape(const ModelSpec& model, const TrainingSpec& training,
                          const ParallelSpec& parallel,
                          std::optional<int> context_rank = std::nullopt);

struct Op {
  base::OpRecord record;
  bool recomputed = false;  // a forward operation run again in the backward pass
  // A collective that runs beside the operation after it, which does not read its result.
  bool beside_next = false;
};

// Whether the operation gives the gradient of a weight matrix: it waits for nothing but the
// gradient of its output, and nothing but the optimizer waits for it.
bool IsWeightGradient(const Op& op);

// One transformer layer of a form, the embedding, the head. Appended to `ops` in execution order.
void AppendLayerForward(const ModelSpec& model, const ParallelSpec& parallel, const LayerForm& form,
                        const LocalShape& shape, std::vector<Op>& ops);
void AppendLayerBackward(const ModelSpec& model, const ParallelSpec& parallel,
                         const LayerForm& form, const LocalShape& shape, std::vector<Op>& ops);
void AppendEmbeddingForward(const ModelSpec& model, const ParallelSpec& parallel,
                            const LocalShape& shape, std::vector<Op>& ops);
void AppendEmbeddingBackward(const ModelSpec& model, const ParallelSpec& parallel,
                             const LocalShape& shape, std::vector<Op>& ops);
void AppendHeadForward(const ModelSpec& model, const ParallelSpec& parallel,
                       const LocalShape& shape, std::vector<Op>& ops);
void AppendHeadBackward(const ModelSpec& model, const ParallelSpec& parallel,
                        const LocalShape& shape, std::vector<Op>& ops);

// A whole virtual stage, forward or backward, pipeline transfers apart. The backward pass also in
// its two parts: the products that give its layers' weight gradients, and all the rest. The head's
// runs with the rest, so that no logits wait for it.
std::vector<Op> StageForwardOps(const ModelSpec& model, const TrainingSpec& training,
                                const ParallelSpec& parallel, const VirtualStage& stage,
                                std::optional<int> context_rank = std::nullopt);
std::vector<Op> StageBackwardOps(const ModelSpec& model, const TrainingSpec& training,
                                 const ParallelSpec& parallel, const VirtualStage& stage,
                                 std::optional<int> context_rank = std::nullopt);
std::vector<Op> StageBackwardInputOps(const ModelSpec& model, const TrainingSpec& training,
                                      const ParallelSpec& parallel, const VirtualStage& stage,
                                      std::optional<int> context_rank = std::nullopt);
std::vector<Op> StageBackwardWeightOps(const ModelSpec& model, const TrainingSpec& training,
                                       const ParallelSpec& parallel, const VirtualStage& stage);

// A tensor kept from the forward to the backward pass.
struct SavedTensor {
  std::string name;
  int64_t num_bytes = 0;
};
int64_t SumBytes(const std::vector<SavedTensor>& tensors);
// What one layer keeps, and what full recomputation brings back for one layer at a time
// (kNone's list less the layer's input).
std::vector<SavedTensor> LayerSavedTensors(const ModelSpec& model, const TrainingSpec& training,
                                           const ParallelSpec& parallel, const LayerForm& form,
                                           const LocalShape& shape);
std::vector<SavedTensor> LayerRecomputedTensors(const ModelSpec& model,
                                                const TrainingSpec& training,
                                                const ParallelSpec& parallel, const LayerForm& form,
                                                const LocalShape& shape);
// Of a backward pass in two parts, what one layer keeps for the second: both operands of every
// product that gives a weight gradient, as that product reads them.
int64_t LayerWeightOperandBytes(const ModelSpec& model, const TrainingSpec& training,
                                const ParallelSpec& parallel, const LayerForm& form,
                                const LocalShape& shape);
std::vector<SavedTensor> EmbeddingSavedTensors(const LocalShape& shape);
// Where the documents of each token of whole samples begin, which embedding and layers read where
// positions or attention start anew with a document; empty where nothing on the stage does.
std::vector<SavedTensor> DocumentSavedTensors(const ModelSpec& model, const LocalShape& shape,
                                              const VirtualStage& stage);
std::vector<SavedTensor> HeadSavedTensors(const ModelSpec& model, const TrainingSpec& training,
                                          const ParallelSpec& parallel, const LocalShape& shape);

// Bytes that one micro-batch holds on a virtual stage.
struct StageActivationBytes {
  int64_t saved_bytes = 0;   // kept between its forward and its backward pass
  int64_t layers_bytes = 0;  // of these, the layers' and the embedding's
  // The most while one of its passes runs: saved tensors, or, once the head's and those of the
  // layers behind are gone, those left with what recomputation brings back for one layer. At least
  // saved_bytes.
  int64_t working_bytes = 0;
  // Of a backward pass in two parts: kept between them, and the most while the first one runs.
  int64_t weight_operand_bytes = 0;
  int64_t input_part_bytes = 0;
};

// Plays the actions of one pipeline stage and keeps count of the activations that they hold.
// `by_chunk`, which must outlive it, is indexed by chunk, virtual stage = chunk * num_stages +
// stage.
class ActivationLedger {
 public:
  ActivationLedger(int num_stages, const std::vector<StageActivationBytes>& by_chunk)
      : num_stages_(num_stages), by_chunk_(by_chunk) {}

  // The most that is held while the action runs: what other micro-batches keep plus what the
  // running one holds. [bytes]
  int64_t Run(const Action& action);
  // Kept after the actions so far. [bytes]
  int64_t held_bytes() const { return held_bytes_; }

 private:
  int num_stages_;
  const std::vector<StageActivationBytes>& by_chunk_;
  int64_t held_bytes_ = 0;
};

// Peak over the actions of one pipeline stage.
int64_t PeakActivationBytes(const std::vector<Action>& actions, int num_stages,
                            const std::vector<StageActivationBytes>& by_chunk);

// Elements that one pipeline transfer brings to a rank, and those that its peer sends it: with
// scatter_gather_transfers each tensor rank a part, gathered where a pass reads it.
int64_t PipelineTransferElements(const LocalShape& shape);
int64_t SentTransferElements(const ParallelSpec& parallel, const LocalShape& shape);

// FLOPs of one operation (multiply and add counted apart); 0 for communication.
double FlopsOf(const base::OpRecord& record);
// Least bytes an operation moves to and from memory, with `element_bytes` per activation.
double MemoryBytesOf(const base::OpRecord& record, int64_t element_bytes);

// Keys that a query of an attention operation sees, on average.
double MeanAttendedKeys(const base::OpRecord& record);

// How attention under a causal mask counts: every key of the sequence, or those before the token.
// Of a window of w keys: w, or w - w^2 / (2 s).
enum class FlopsConvention : uint8_t { kFull, kCausal };
// FLOPs of one operation by the convention, whatever part of attention a kernel skips.
double ConventionFlopsOf(const base::OpRecord& record, FlopsConvention convention);
// Model FLOPs of one step as Megatron-LM counts them (no recomputation): 3 times the forward matrix
// products and attention; of experts those that a token visits, without the router.
double ModelFlopsPerStep(const ModelSpec& model, const TrainingSpec& training,
                         FlopsConvention convention);

}  // namespace tessera::spec
