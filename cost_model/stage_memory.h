// The memory of one pipeline stage put together from its parts, by the behaviours of a runtime.
#pragma once

#include "cost_model/spec/flat_layout.h"
#include "cost_model/spec/op_list.h"
#include "cost_model/spec/runtime_spec.h"
#include "cost_model/spec/step_report.h"

namespace tessera::cost_model {

inline constexpr int64_t kFloatBytes = 4;
inline constexpr int64_t kMomentBytes = 8;  // AdamW's m and v in fp32

// What differs between stages, in numbers.
struct StageParts {
  spec::StateBytes state;         // Tessera's, spec::StateBytesOf
  int64_t activations_bytes = 0;  // peak along the schedule, working sets included
  int64_t end_elements = 0;       // parameters of embedding and head, not sharded over data ranks
  int64_t placeholder_bytes = 0;  // PlaceholderBytes of the stage's layers
  int64_t workspace_bytes = 0;    // of the passes, without autograd
};

// The layout as memory sees it: a pool of cores has no memory but the ranks' own to offload to;
// programs with autograd hold whole gradients of one part at a time, as measured, whatever
// overlaps.
spec::ParallelSpec LayoutOfState(const spec::ClusterSpec& cluster, const spec::RuntimeSpec& runtime,
                                 spec::ParallelSpec parallel);

// What is whole at once as a runtime holds it: programs with autograd gather an embedding that the
// head reads like any other part.
spec::StateElements ElementsIn(const spec::RuntimeSpec& runtime, spec::StateElements elements);

// Ranks among which the runtime splits an update that the layout leaves whole.
int UpdateSharers(const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime);

// Weights, gradients and optimizer state in the types of a runtime: the same shards, other bytes
// an element. Bytes a parameter before sharding: 2 + 4 + 12 in Megatron-LM; 2 + 2 + 12 in ZeRO,
// Rajbhandari et al. 2020, arXiv:1910.02054, section 3.1, and 4 more while DeepSpeed updates; 4 + 4
// + 8 with FSDP.
spec::StateBytes StateBytesIn(const spec::StateBytes& state, const spec::TrainingSpec& training,
                              const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime);

// Bytes of the empty tensors that stand for the weight gradients of `stage`'s layers: one for each
// shape of a matrix, in the activations' type. Matrices that one product multiplies are one.
int64_t PlaceholderBytes(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                         const spec::ParallelSpec& parallel, const spec::VirtualStage& stage);

// Tessera's state of the stage that holds the embedding, less what the runtime splits over tensor
// ranks and Tessera does not: the parameters of learned positions, under sequence parallelism.
spec::StateBytes SplitPositions(const spec::StateBytes& state, const spec::ModelSpec& model,
                                const spec::TrainingSpec& training,
                                const spec::ParallelSpec& parallel,
                                const spec::RuntimeSpec& runtime);

// Groups of ranks that a rank talks to, the whole world included.
int NumCommunicators(const spec::ParallelSpec& parallel);

// Everything but the terms. Buffers: workspace or placeholders, parameters gathered and gradients
// not yet scattered, communication buckets, what the update needs beyond the activations that are
// gone by then, and the context: reserved memory and the communicators' buffers.
spec::StageMemory AssembleStage(const spec::ClusterSpec& cluster,
                                const spec::TrainingSpec& training,
                                const spec::ParallelSpec& parallel,
                                const spec::RuntimeSpec& runtime, const StageParts& parts);

// What AssembleStage counts as buffers. They sum to buffers_bytes.
struct StageBuffers {
  int64_t workspace_bytes = 0;
  int64_t placeholder_bytes = 0;
  int64_t gathered_bytes = 0;       // parameters, ZeRO 3
  int64_t unreduced_bytes = 0;      // whole gradients of which shards are kept
  int64_t communication_bytes = 0;  // buckets beside the gradients
  int64_t update_bytes = 0;
  int64_t context_bytes = 0;
};
StageBuffers BuffersOf(const spec::ClusterSpec& cluster, const spec::TrainingSpec& training,
                       const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime,
                       const StageParts& parts);

}  // namespace tessera::cost_model
